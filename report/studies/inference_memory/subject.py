"""Subjects of inference_memory: a call of a network, a limit of memory, and rows of tables.

The programs ``fits``, ``fits_cuda``, ``baselines`` and ``operators`` in ``benchmarks`` write the
tables.
"""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from report.core.errors import StudyError
from report.core.records.record import Case, Level
from report.core.records.store import Stored
from report.evidence.case_checks import AllowedLevels, check_factors
from report.theory.conditions import Layout

CallMode: TypeAlias = Literal["inference", "training"]
InferencePrecision: TypeAlias = Literal["float32", "bfloat16", "float16"]

LAYOUTS: Final[tuple[Layout, ...]] = get_args(Layout)
PRECISIONS: Final[tuple[InferencePrecision, ...]] = get_args(InferencePrecision)
#: Ways to execute a network in tiles, parts of its maps.
TILED_EXECUTIONS: Final = ("tiled_layers", "tiled_blocks", "tiled_stages")
#: Change of a network by which it allocates more or less → its label in tables.
CHANGE_LABELS: Final = {"in_place": "ReLU in place", "nested": "nested"}
#: Precision and layout that the source calls "AMP + AMC".
BFLOAT16: Final[InferencePrecision] = "bfloat16"
CHANNELS_LAST: Final[Layout] = "channels_last"
#: The network and the batch size whose memory the paper's text describes.
RESNET_20: Final = "ResNet-20"
SHOWN_BATCH: Final = 256
#: A small network of cuda-convnet; its peaks are measured, but not predicted.
CIFAR_NETWORK: Final = "CIFAR"
#: Network and batch of calls whose peaks a table compares by layout and precision.
COMPARED_CALLS: Final = (
    (RESNET_20, 128), (RESNET_20, SHOWN_BATCH), (RESNET_20, 16_384), (CIFAR_NETWORK, 1024),
    ("AlexNet", 1), ("AlexNet", 1024),
)  # fmt: skip
#: Heading → precision and layout that a table compares with contiguous maps in float32.
COMPARED_SETTINGS: Final[dict[str, tuple[InferencePrecision, Layout]]] = {
    "bfloat16": (BFLOAT16, "contiguous"), "float16": ("float16", "contiguous"),
    "channels last": ("float32", CHANNELS_LAST), "both": (BFLOAT16, CHANNELS_LAST),
}  # fmt: skip
#: The networks whose batch size the source varies, in the order of their depth.
RESNETS: Final = ("ResNet-20", "ResNet-32", "ResNet-44", "ResNet-56", "ResNet-110")
#: Networks of this paper in the order of its tables.
NETWORKS: Final = ("LeNet-5", *RESNETS, "AlexNet", "VGG-16", CIFAR_NETWORK)
#: Networks from whose allocations the rules of workspaces were inferred, at batches up to 16.
RULE_NETWORKS: Final = ("LeNet-5", "ResNet-20", "ResNet-56", "AlexNet")
#: Bytes by which a call may exceed a limit, because the system allocates whole pages.
SLACK_BYTES: Final = 131_072

_SHARED_FACTORS: Final[dict[str, AllowedLevels]] = {"network": str, "image": int, "layout": LAYOUTS}
#: Subject of a case → required factors.
_REQUIRED_FACTORS: Final[dict[str, dict[str, AllowedLevels]]] = {
    "inference": {**_SHARED_FACTORS, "batch": int, "precision": PRECISIONS, "execution": str},
    "limit": {**_SHARED_FACTORS, "memory_limit": int},
    "accuracy": {},
}


@dataclass(frozen=True)
class Call:
    """One forward call of whole maps or in tiles; ``image``, ``tile``: pixels on each side."""

    network: str
    image: int
    batch: int
    layout: Layout = "contiguous"
    precision: InferencePrecision = "float32"
    execution: str = "eager"
    tile: int | None = None

    @property
    def factors(self) -> dict[str, Level]:
        """Return the factors of the call's case in a record."""
        factors: dict[str, Level] = {"subject": "inference", **vars(self)}
        if self.tile is None:
            del factors["tile"]
        return factors


def untiled_call(
    network: str,
    batch: int,
    precision: InferencePrecision = "float32",
    layout: Layout = "contiguous",
) -> Call:
    """Return a call that computes whole maps, on images of the network's own size."""
    image_side = 224 if network in ("AlexNet", "VGG-16") else 32
    return Call(network, image_side, batch, layout, precision)


#: A call in the largest tiles; a tile is computed through a whole stage of layers.
TILED_CALL: Final = Call(RESNET_20, 224, 2, execution="tiled_stages", tile=64)


class LimitOutcome(NamedTuple):
    """The largest batch (or 0) that ran under a limit of address space.

    ``change`` is a key of ``CHANGE_LABELS``, or empty for the unchanged network.
    """

    network: str
    image: int
    layout: Layout
    mebibytes: int
    largest_batch: int
    change: str = ""

    @property
    def setting(self) -> tuple[str, Layout, int]:
        """Network, layout and limit, which are equal for a changed and an unchanged network."""
        return self.network, self.layout, self.mebibytes


def call_of(case: Case) -> Call | None:
    """Return the call of a checked case, or None for a case that this paper leaves out."""
    factors = {name: level for name, level in case.factors.items() if name != "subject"}
    if case.factors.get("subject") != "inference" or "memory_limit" in factors:
        return None
    if factors.get("execution") not in ("eager", *TILED_EXECUTIONS):
        return None
    return Call(**factors) if factors["network"] in NETWORKS else None  # type: ignore[arg-type]


def limit_outcome_of(case: Case) -> LimitOutcome | None:
    """Return the outcome of a case under a limit; None for other cases or if no batch failed."""
    ran_by_batch = dict(zip(case.samples("batch_tried"), case.samples("batch_ran"), strict=True))
    if case.factors.get("subject") != "limit" or 0 not in ran_by_batch.values():
        return None
    largest = max((int(batch) for batch, ran in ran_by_batch.items() if ran), default=0)
    levels = [case.factors[name] for name in (*_SHARED_FACTORS, "memory_limit")]
    change = str(case.factors.get("change", ""))
    return LimitOutcome(*levels, largest, change)  # type: ignore[arg-type,call-arg]


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` for factors that do not fit their subject or the recorded layers.

    The first layer must have the batch and the image size, and only a tiled call has a ``tile``.
    """
    optional: dict[str, AllowedLevels] = {"tile": int, "memory_limit": int, "change": CHANGE_LABELS}
    check_factors(stored, _REQUIRED_FACTORS, optional, closed=("inference", "limit"))
    for index, case in enumerate(stored.record.cases):
        if case.factors.get("subject") == "inference" and case.layers:
            expected = case.factors["batch"], case.factors["image"]
            shape = case.layers[0].input_shape
            is_tiled = case.factors["execution"] in TILED_EXECUTIONS
            if (shape[0], shape[-1]) != expected or ("tile" in case.factors) != is_tiled:
                raise StudyError(
                    f"data/{stored.file}: cases[{index}].layers: found images {shape}, expected "
                    f"{expected[0]} of {expected[1]} pixels a side; run the experiment again."
                )


#: Pixels on each side of the images in tables.
IMAGE_SIDE: Final = 64
#: Limits on a CPU: bytes beyond the predicted peak of two images.
ROOM_FOR_TENSORS: Final = (8_000_000, 24_000_000, 72_000_000)
#: Limits on a GPU: bytes beyond the predicted peak of two images.
ROOM_ON_GPU: Final = (1_000_000_000, 4_000_000_000)
#: Prefix of the networks of our studies; the rules of workspaces were inferred from two of them.
OUR_NETWORKS_PREFIX: Final = "study:"
#: Networks of timm whose peaks were measured before the rules of workspaces were last corrected.
NETWORKS_SEEN_BEFORE: Final = (
    "edgenext_xx_small", "ghostnet_050", "hardcorenas_b", "hrnet_w18_small", "mobileone_s0"
)  # fmt: skip


class LimitTables(NamedTuple):
    """File names of tables: limits, measured peaks with estimates, and bytes by operator."""

    limits: str
    baselines: str = "baselines-avx2.csv"
    operators: str = "operators-avx2.csv"


#: The machine of this table of limits was not recorded; ``REPEATED_LIMITS`` has most limits again.
AVX2_TABLES: Final = LimitTables("limits-cpu.csv")
AVX512_TABLES: Final = LimitTables(
    "limits-avx512.csv", "baselines-avx512-sample.csv", "operators-avx512.csv"
)
GPU_TABLES: Final = LimitTables("limits-cuda.csv")
REPEATED_LIMITS: Final = "limits-avx2.csv"
#: Field of a row → column of a table, if the names differ.
_COLUMNS: Final = {
    "limit_bytes": "limit", "predicted_batch": "predicted", "largest_batch": "ran",
    "reserved_bytes": "reserved", "least_bytes": "least", "peak_bytes": "peak",
    "torchinfo_fixed": "summed_fixed", "torchinfo_per_image": "summed_per_image",
    "kitsune_fixed": "estimated_fixed", "kitsune_per_image": "estimated_per_image",
    "total_fixed": "fixed", "total_per_image": "per_image",
}  # fmt: skip


class TableLimit(msgspec.Struct, frozen=True, rename=_COLUMNS):
    """A limit, the batch that the count predicts, and the largest batch that ran.

    ``reserved_bytes`` are predicted by a model of the GPU's allocator for the predicted batch.  For
    the largest batch, ``least_bytes`` are its tensors and ``peak_bytes`` its measured peak.  These
    three are 0 on a CPU.
    """

    network: str
    mode: CallMode
    limit_bytes: int
    predicted_batch: int
    largest_batch: int
    verdict: str = ""
    reserved_bytes: int = 0
    least_bytes: int = 0
    peak_bytes: int = 0


class Baseline(msgspec.Struct, frozen=True, rename=_COLUMNS):
    """Measured peaks of a network (B) by batch, and bytes that two tools estimate.

    The bytes of torch-kitsune are 0 if it has no estimate.
    """

    network: str
    peak_of_2: int
    peak_of_4: int
    peak_of_8: int
    peak_of_16: int
    peak_of_32: int
    peak_of_64: int
    peak_of_128: int
    peak_of_256: int
    torchinfo_fixed: int
    torchinfo_per_image: int
    kitsune_fixed: int = 0
    kitsune_per_image: int = 0

    @property
    def peaks(self) -> dict[int, int]:
        """Batch → measured peak (B)."""
        return {2**n: getattr(self, f"peak_of_{2**n}") for n in range(1, 9)}


class OperatorBytes(msgspec.Struct, frozen=True, rename=_COLUMNS):
    """Bytes alive at an operator: fixed bytes and bytes per image.

    The bytes of ``tensors`` leave out the operator's workspace, and the ``total`` bytes include it.
    """

    network: str
    tensors_fixed: int
    tensors_per_image: int
    total_fixed: int
    total_per_image: int

    def total(self, batch: int) -> int:
        """Return the bytes of tensors and workspace at a batch."""
        return self.total_fixed + batch * self.total_per_image
