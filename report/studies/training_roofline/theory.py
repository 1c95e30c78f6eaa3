"""Theory of a training step: work, traffic by two models, and the least time."""

from __future__ import annotations

from functools import cache
from typing import Final

from report.core.records.layers import BatchNorm, Convolution, Layer, at_batch
from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import counted_in, flops, largest
from report.studies.training_roofline.subject import IMAGE
from report.theory.networks import layers_of
from report.theory.roofline import cached_step_load, load, step_load, update_load
from report.theory.work import training_macs, training_passes

#: The batch size whose intensities the source prints for every network.
SOURCE_BATCH: Final = 128
#: Processes that load images by default in PyTorch's ImageNet example.
WORKERS: Final = 4
#: Images of a step on loaded images.
LOADED_BATCH: Final = 16
#: Pixels along a side of an image.
LOADED_IMAGE: Final = 32
#: Multiplications of a direct 3 × 3 convolution over those of Winograd's smallest tile: a tile of
#: 2 × 2 outputs takes 4 · 9 and 16 (Lavin and Gray 2016).
WINOGRAD: Final = 36 / 16


@cache
def shapes(network: str, batch: int = 1) -> tuple[Layer, ...]:
    """The layers of a network on images of the source's size."""
    return at_batch(layers_of(network, IMAGE), batch)


@cache
def work(network: str) -> Quantity:
    """Work of a training step on one image (FLOP)."""
    macs = exact("multiply-adds of a step", "1", training_macs(shapes(network)))
    return named(f"work of {network}", flops(counted_in("MAC", macs)))


@cache
def traffic(network: str, batch: int = SOURCE_BATCH, *, cached: bool = False) -> Quantity:
    """Bytes that a training step moves for one image, layer by layer or with a perfect cache."""
    load = (cached_step_load if cached else step_load)(shapes(network, batch))
    return exact(f"traffic of {network}", "B", load.bytes) / exact(f"batch {batch}", "1", batch)


def intensity(network: str, *, cached: bool = False) -> Quantity:
    """Work over traffic (FLOP/B) at the source's batch."""
    return work(network) / traffic(network, cached=cached)


def by_winograd(layer: Layer) -> bool:
    """Tell if Winograd's algorithm computes a layer: dense, 3 × 3, with a stride of one."""
    dense = isinstance(layer, Convolution) and layer.groups == 1
    return dense and (layer.kernel, layer.stride) == ((3, 3), (1, 1))  # type: ignore[union-attr]


def winograd_share(network: str) -> Quantity:
    """Compute the share of a step's multiply-adds that Winograd's algorithm can replace."""
    layers = shapes(network)
    work = [load(*layer).flops for layer in zip(layers, training_passes(layers), strict=True)]
    own = sum(work for layer, work in zip(layers, work, strict=True) if by_winograd(layer))
    return exact(f"share of 3 x 3 of {network}", "1", own / sum(work))


@cache
def least_time(
    network: str,
    batch: int,
    peak: float,
    bandwidth: float,
    *,
    once: bool = False,
    winograd: bool = False,
) -> tuple[Quantity, float]:
    """The time (s) of a training step whose layers all run at the nearer of their roofs.

    With it the share of that time in which memory is the nearer one.  ``peak`` is in FLOP/s and
    ``bandwidth`` in B/s; the update of the parameters moves bytes alone.  With ``once``, the
    backward pass of batch norm reads its tensors once for both gradients, not for each.  With
    ``winograd``, layers that this algorithm can compute multiply less often.
    """
    layers = shapes(network, batch)
    update = update_load(layers)
    arithmetic, moving = [update.flops / peak], [update.bytes / bandwidth]
    for layer, passes in zip(layers, training_passes(layers), strict=True):
        joint = once and isinstance(layer, BatchNorm)
        cost = load(layer, (passes[0], *passes[2:]) if joint else passes)
        fewer = WINOGRAD if winograd and by_winograd(layer) else 1
        arithmetic.append(cost.flops / fewer / peak)
        moving.append(cost.bytes / bandwidth)
    seconds = sum(map(max, arithmetic, moving))
    memory = sum(b for a, b in zip(arithmetic, moving, strict=True) if b > a)
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
