"""Measured steps of training, their factors, and the check of a record."""

from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from report.core.records.record import Case
from report.core.records.store import Stored
from report.evidence.case_checks import AllowedLevels, check_factors
from report.theory.conditions import Layout

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
#: Images of a step on loaded images, the pixels along their sides, and the timed steps a process.
LOADED_BATCH: Final = 16
LOADED_IMAGE: Final = 32
LOADED_STEPS: Final = 20
#: The network that waits for its images, with the side of the files; and last those that do not.
WAITING: Final = (SMALL, "1080")
LOADED: Final = (WAITING, (SMALL, "320"), (HEAVY, "1080"))
#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
MARGIN: Final = 0.1
#: Prefixes of units.
MEGA, GIGA, TERA = 1e6, 1e9, 1e12

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
