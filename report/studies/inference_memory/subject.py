"""Subjects of inference_memory: a call of a network, a limit of memory, and rows of tables.

Programs in ``benchmarks`` write the tables: ``fits``, ``fits_cuda``, ``baselines``, ``operators``.
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
TILED: Final = ("tiled_layers", "tiled_blocks", "tiled_stages")
#: Changes of one allocation under a limit, in words.
CHANGES: Final = {"in_place": "ReLU in place", "nested": "nested"}
#: Precision and layout of the source's "AMP + AMC".
BFLOAT16: Final[InferencePrecision] = "bfloat16"
CHANNELS_LAST: Final[Layout] = "channels_last"
#: The network and the batch size whose memory the prose describes.
RESNET_20: Final = "ResNet-20"
SHOWN_BATCH: Final = 256
#: A small network of cuda-convnet, without theory.
CIFAR: Final = "CIFAR"
#: Network and batch of calls whose peaks a table compares by layout and precision.
COMPARED_CALLS: Final = (
    (RESNET_20, 128), (RESNET_20, SHOWN_BATCH), (RESNET_20, 16_384), (CIFAR, 1024),
    ("AlexNet", 1), ("AlexNet", 1024),
)  # fmt: skip
#: Name → precision and layout that a table compares with contiguous maps in float32.
SETTINGS: Final[dict[str, tuple[InferencePrecision, Layout]]] = {
    "bfloat16": (BFLOAT16, "contiguous"), "float16": ("float16", "contiguous"),
    "channels last": ("float32", CHANNELS_LAST), "both": (BFLOAT16, CHANNELS_LAST),
}  # fmt: skip
#: By depth: the networks whose batch size the source varies.
RESNETS: Final = ("ResNet-20", "ResNet-32", "ResNet-44", "ResNet-56", "ResNet-110")
#: Networks of this paper in the order of its tables.
NETWORKS: Final = ("LeNet-5", *RESNETS, "AlexNet", "VGG-16", CIFAR)
#: Networks from whose allocations, at batches up to 16, the rules of workspaces were inferred.
RULE_NETWORKS: Final = ("LeNet-5", "ResNet-20", "ResNet-56", "AlexNet")
#: Bytes by which a call may exceed a limit, since whole pages are allocated.
SLACK_BYTES: Final = 131_072

_NETWORK: Final[dict[str, AllowedLevels]] = {"network": str, "image": int, "layout": LAYOUTS}
#: Subject of a case → required factors.
_REQUIRED_FACTORS: Final[dict[str, dict[str, AllowedLevels]]] = {
    "inference": {**_NETWORK, "batch": int, "precision": PRECISIONS, "execution": str},
    "limit": {**_NETWORK, "memory_limit": int},
    "accuracy": {},
}


@dataclass(frozen=True)
class Call:
    """One forward call; ``image`` and ``tile``: pixels on each side of an image and of a tile."""

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


def whole_call(
    network: str,
    batch: int,
    precision: InferencePrecision = "float32",
    layout: Layout = "contiguous",
) -> Call:
    """Return a call of whole maps on images of the network's own size."""
    image_side = 224 if network in ("AlexNet", "VGG-16") else 32
    return Call(network, image_side, batch, layout, precision)


#: A call in the largest tiles, stage by stage.
TILED_CALL: Final = Call(RESNET_20, 224, 2, execution="tiled_stages", tile=64)


class Limit(NamedTuple):
    """Outcome under a limit of ``mebibytes``; ``ran``: the largest batch that ran, or 0."""

    network: str
    image: int
    layout: Layout
    mebibytes: int
    ran: int
    change: str = ""

    @property
    def setting(self) -> tuple[str, Layout, int]:
        """Network, layout and limit, which a changed and an unchanged network have in common."""
        return self.network, self.layout, self.mebibytes


def call_of(case: Case) -> Call | None:
    """Return the call of a checked case, or None for a case that this paper leaves out."""
    factors = {name: level for name, level in case.factors.items() if name != "subject"}
    known = case.factors.get("execution") in ("eager", *TILED) and "memory_limit" not in factors
    if case.factors.get("subject") != "inference" or not known:
        return None
    return Call(**factors) if factors["network"] in NETWORKS else None  # type: ignore[arg-type]


def limit_of(case: Case) -> Limit | None:
    """Return the outcome of a case under a limit; None for other cases or if no batch failed."""
    ran_by_batch = dict(zip(case.samples("batch_tried"), case.samples("batch_ran"), strict=True))
    if case.factors.get("subject") != "limit" or 0 not in ran_by_batch.values():
        return None
    ran = max((int(batch) for batch, ran in ran_by_batch.items() if ran), default=0)
    levels = [case.factors[name] for name in (*_NETWORK, "memory_limit")]
    return Limit(*levels, ran, str(case.factors.get("change", "")))  # type: ignore[arg-type,call-arg]


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` for unknown factors, or layers of other images than the factors say."""
    optional: dict[str, AllowedLevels] = {"tile": int, "memory_limit": int, "change": CHANGES}
    check_factors(stored, _REQUIRED_FACTORS, optional, closed=("inference", "limit"))
    for index, case in enumerate(stored.record.cases):
        if case.factors.get("subject") == "inference" and case.layers:
            expected = case.factors["batch"], case.factors["image"]
            shape = case.layers[0].input_shape
            is_tiled = case.factors["execution"] in TILED
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
#: Prefix of networks of our studies; rules of workspaces were inferred from two of them.
OUR_NETWORKS_PREFIX: Final = "study:"
#: Networks of timm whose peaks were measured before the rules of workspaces were last corrected.
SURVEYED: Final = (
    "edgenext_xx_small", "ghostnet_050", "hardcorenas_b", "hrnet_w18_small", "mobileone_s0"
)  # fmt: skip


class LimitTables(NamedTuple):
    """File names of tables: limits, measured peaks with estimates, and bytes by operator."""

    limits: str
    baselines: str = "baselines-avx2.csv"
    operators: str = "operators-avx2.csv"


#: The machine of this table of limits was not recorded; ``REPEATED_TABLE`` repeats most limits.
AVX2: Final = LimitTables("limits-cpu.csv")
AVX512: Final = LimitTables(
    "limits-avx512.csv", "baselines-avx512-sample.csv", "operators-avx512.csv"
)
GPU: Final = LimitTables("limits-cuda.csv")
REPEATED_TABLE: Final = "limits-avx2.csv"


class LimitOfNetwork(msgspec.Struct, frozen=True):
    """A limit (B), the batch that the count predicts, and the largest batch that ran.

    On a GPU also bytes.  ``reserved``: by the allocator's model, for the tensors of the predicted
    batch.  ``least``: tensors of the batch that ran.  ``peak``: measured for the batch that ran.
    """

    network: str
    mode: CallMode
    limit: int
    predicted: int
    ran: int
    verdict: str = ""
    reserved: int = 0
    least: int = 0
    peak: int = 0


class Baseline(msgspec.Struct, frozen=True):
    """Measured peaks of a network by batch (B), and two estimates; the second is 0 if missing."""

    network: str
    peak_of_2: int
    peak_of_4: int
    peak_of_8: int
    peak_of_16: int
    peak_of_32: int
    peak_of_64: int
    peak_of_128: int
    peak_of_256: int
    summed_fixed: int
    summed_per_image: int
    estimated_fixed: int = 0
    estimated_per_image: int = 0

    @property
    def peaks(self) -> dict[int, int]:
        """Measured peak by batch."""
        return {2**n: getattr(self, f"peak_of_{2**n}") for n in range(1, 9)}


class OperatorBytes(msgspec.Struct, frozen=True):
    """Bytes alive at an operator: a fixed part and a part per image; also without workspace."""

    network: str
    tensors_fixed: int
    tensors_per_image: int
    fixed: int
    per_image: int

    def total(self, batch: int) -> int:
        """Return the bytes of tensors and workspace at a batch."""
        return self.fixed + batch * self.per_image
