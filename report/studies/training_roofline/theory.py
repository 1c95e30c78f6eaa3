"""Steps of training: the subject of a case, work, traffic by two models, and the least time."""

from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from report.core.records.layers import BatchNorm, Convolution, Layer, at_batch
from report.core.records.record import Case
from report.core.records.store import Stored
from report.evidence.case_checks import AllowedLevels, check_factors
from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import counted_in, flops, largest
from report.theory.conditions import Layout
from report.theory.networks import layers_of
from report.theory.roofline import Load, cached_step_load, load, step_load, update_load
from report.theory.work import LayerPass, training_macs, training_passes

TrainingPrecision: TypeAlias = Literal["float32", "tfloat32", "bfloat16"]

#: In the order of the tables: by depth, then the light one.
NETWORKS: Final = ("ResNet-18", "ResNet-50", "MobileNetV2")
SMALL, HEAVY, LIGHT = NETWORKS
#: The side of an image for which the networks are made, and whose work the source prints.
IMAGE: Final = 224
#: The batch size whose intensities the source prints for every network.
SOURCE_BATCH: Final = 128
#: Processes that load images by default in PyTorch's ImageNet example.
WORKERS: Final = 4
#: Images of a step on loaded images, and the pixels along their sides.
LOADED_BATCH: Final = 16
LOADED_IMAGE: Final = 32
#: Multiplications of a direct 3 × 3 convolution over those of Winograd's smallest tile: a tile of
#: 2 × 2 outputs takes 4 · 9 and 16 (Lavin and Gray 2016).
WINOGRAD: Final = 36 / 16
#: Predicted ratio of efficiencies of one core with vectors of 256 and of 512 bits, by the peak that
#: the number of lanes suggests and by a measured peak.  Zen 4 computes 512 bits in two halves, so
#: the wider vectors double the suggested peak and not the rate.  Both hold to ``VECTOR_MARGIN``.
VECTOR_RATIOS: Final = (2.0, 1.0)
VECTOR_MARGIN: Final = 0.1

_STEP: Final[dict[str, AllowedLevels]] = {
    "network": NETWORKS,
    "image": int,
    "batch": int,
    "precision": get_args(TrainingPrecision),
}
#: Steps on images that a loader of four workers brings; no network stands for the loader alone.
_LOADING: Final[dict[str, AllowedLevels]] = {
    "network": (*NETWORKS, "none"),
    "image": int,
    "batch": int,
    "files": str,
}
#: Factors that only older records vary, with the level that this paper studies.
_PLAIN: Final = {"execution": "eager", "optimizer": "default", "dataset": "synthetic"}


class Step(NamedTuple):
    """One kind of training step; ``image`` are the pixels a side."""

    network: str
    image: int
    batch: int
    precision: TrainingPrecision = "float32"
    layout: Layout = "contiguous"


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` if a case of training or of a profile is not one of this study."""
    older: dict[str, AllowedLevels] = {**dict.fromkeys(_PLAIN, str), "layout": get_args(Layout)}
    check_factors(stored, {"training": _STEP, "profile": _STEP, "loading": _LOADING}, older)


def step_of(case: Case) -> Step | None:
    """Return the step of a case, or None for an execution that the paper leaves out."""
    if any(case.factors.get(name, level) != level for name, level in _PLAIN.items()):
        return None
    factors = {name: case.factors[name] for name in Step._fields if name in case.factors}
    return Step(**factors)  # type: ignore[arg-type]


@cache
def shapes(network: str, batch: int = 1) -> tuple[Layer, ...]:
    """Return the layers of a network on images of the source's size."""
    return at_batch(layers_of(network, IMAGE), batch)


@cache
def work(network: str) -> Quantity:
    """Compute the work of a training step on one image (FLOP)."""
    macs = exact("multiply-adds of a step", "1", training_macs(shapes(network)))
    return named(f"work of {network}", flops(counted_in("MAC", macs)))


@cache
def traffic(network: str, batch: int = SOURCE_BATCH, *, cached: bool = False) -> Quantity:
    """Bytes that a training step moves for one image, layer by layer or with a perfect cache."""
    moved = (cached_step_load if cached else step_load)(shapes(network, batch))
    return exact(f"traffic of {network}", "B", moved.bytes) / exact(f"batch {batch}", "1", batch)


def intensity(network: str, *, cached: bool = False) -> Quantity:
    """Divide work by traffic (FLOP/B) at the source's batch."""
    return work(network) / traffic(network, cached=cached)


def by_winograd(layer: Layer) -> bool:
    """Tell if Winograd's algorithm computes a layer: dense, 3 × 3, with a stride of one."""
    dense = isinstance(layer, Convolution) and layer.groups == 1
    return dense and (layer.kernel, layer.stride) == ((3, 3), (1, 1))  # type: ignore[union-attr]


def winograd_share(network: str) -> Quantity:
    """Compute the share of a step's multiply-adds that Winograd's algorithm can replace."""
    layers = shapes(network)
    flops_by_winograd = dict.fromkeys((True, False), 0)
    for layer, passes in zip(layers, training_passes(layers), strict=True):
        flops_by_winograd[by_winograd(layer)] += load(layer, passes).flops
    share = flops_by_winograd[True] / sum(flops_by_winograd.values())
    return exact(f"share of 3 x 3 of {network}", "1", share)


@cache
def least_time(
    network: str,
    batch: int,
    peak: float,
    bandwidth: float,
    *,
    once: bool = False,
    winograd: tuple[LayerPass, ...] = (),
) -> tuple[Quantity, float]:
    """Compute the time (s) of a training step whose layers all run at the nearer of their roofs.

    With it the share of that time in which memory is the nearer one.  ``peak`` is in FLOP/s and
    ``bandwidth`` in B/s; the update of the parameters moves bytes alone.  With ``once``, the
    backward pass of batch norm reads its tensors once for both gradients, not for each.  In the
    passes ``winograd``, layers that this algorithm can compute multiply less often.
    """
    layers = shapes(network, batch)
    loads = [update_load(layers)]
    for layer, passes in zip(layers, training_passes(layers), strict=True):
        joint = once and isinstance(layer, BatchNorm)
        cost = load(layer, (passes[0], *passes[2:]) if joint else passes)
        saved = 0.0
        if by_winograd(layer):
            replaced = sum(load(layer, (pass_,)).flops for pass_ in passes if pass_ in winograd)
            saved = replaced * (1 - 1 / WINOGRAD)
        loads.append(Load(round(cost.flops - saved), cost.bytes))
    seconds = memory = 0.0
    for cost in loads:
        arithmetic, moving = cost.flops / peak, cost.bytes / bandwidth
        seconds += max(arithmetic, moving)
        memory += moving if moving > arithmetic else 0
    return exact(f"least time of {network} at batch {batch}", "s", seconds), memory / seconds


def bunched(loader: Quantity, step: Quantity) -> tuple[Quantity, Quantity]:
    """Predict the mean time (s) of a step on loaded images, and by how much an average overstates.

    ``loader`` is the time a batch of all workers together and ``step`` that of a step on images in
    memory.  If the loader is slower, its workers finish together, since they wait for each other's
    turn: one step waits for them, the others find their batches ready.  The second number is the
    mean of the throughputs of single steps over the total throughput, less 1.
    """
    others = WORKERS - 1
    waiting = largest(WORKERS * loader - others * step, step)
    longer = waiting - step
    excess = longer * longer / (waiting * step) * others / WORKERS**2
    return (waiting + others * step) / WORKERS, excess
