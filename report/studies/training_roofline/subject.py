"""Subject of training_roofline: measured steps of training, their factors, and their check."""

from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from report.core.records.record import Case
from report.core.records.store import Stored
from report.evidence.case_checks import AllowedLevels, check_factors
from report.theory.conditions import Layout

TrainingPrecision: TypeAlias = Literal["float32", "tfloat32", "bfloat16"]

#: Networks in the order of the tables.
NETWORKS: Final = ("ResNet-18", "ResNet-50", "MobileNetV2")
RESNET18, RESNET50, MOBILENET = NETWORKS
#: Pixels on each side of the images for which the source prints the networks' work.
IMAGE_SIDE: Final = 224
#: The T4's highest clock (MHz), at which its data sheet rates it (``nvidiaturing``).
T4_CLOCK: Final = 1590
#: The batch size whose intensities the source prints for every network.
SOURCE_BATCH: Final = 128
#: Number of processes that load images by default in PyTorch's ImageNet example.
WORKERS: Final = 4
#: Training steps on loaded images: batch size, pixels on each side, timed steps per process.
LOADED_BATCH, LOADED_SIDE, LOADED_STEPS = 16, 32, 20
#: Network that waits for its images, and the shorter side (pixels) of the files.
WAITING_CASE: Final = (RESNET18, "1080")
#: All (network, files) whose steps on loaded images are compared with steps in memory.
LOADED_CASES: Final = (WAITING_CASE, (RESNET18, "320"), (RESNET50, "1080"))
#: Relative difference up to which claims call numbers equal; runs of one machine differ by as much.
MARGIN: Final = 0.1
#: Prefixes of units.
MEGA, GIGA, TERA = 1e6, 1e9, 1e12

_STEP_FACTORS: Final[dict[str, AllowedLevels]] = {
    "network": NETWORKS, "image": int, "batch": int, "precision": get_args(TrainingPrecision),
}  # fmt: skip
#: Steps on loaded images; the network "none" means the loader alone.
_LOADING_FACTORS: Final[dict[str, AllowedLevels]] = {
    "network": (*NETWORKS, "none"), "image": int, "batch": int, "files": str,
}  # fmt: skip
#: Factor that only older records vary → the level that this paper studies.
_STUDIED_LEVELS: Final = {"execution": "eager", "optimizer": "default", "dataset": "synthetic"}


class Step(NamedTuple):
    """One kind of training step; ``image``: pixels on each side."""

    network: str
    image: int
    batch: int
    precision: TrainingPrecision = "float32"
    layout: Layout = "contiguous"


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` for a missing factor or a level that is not allowed."""
    older: dict[str, AllowedLevels] = {**dict.fromkeys(_STUDIED_LEVELS, str)}
    required = {"training": _STEP_FACTORS, "profile": _STEP_FACTORS, "loading": _LOADING_FACTORS}
    check_factors(stored, required, {**older, "layout": get_args(Layout)})


def step_of(case: Case) -> Step | None:
    """Return the step of a case, or None if a factor has a level that the paper does not study."""
    if any(case.factors.get(name, level) != level for name, level in _STUDIED_LEVELS.items()):
        return None
    factors = {name: case.factors[name] for name in Step._fields if name in case.factors}
    return Step(**factors)  # type: ignore[arg-type]
