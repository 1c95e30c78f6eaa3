"""What training_roofline varies: a step of training, and the cases that a record holds of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from report.errors import StudyError
from report.evidence.case_checks import Levels, check_factors
from report.records.layers import DType
from report.records.record import Case, Factor
from report.records.store import Stored

Precision: TypeAlias = Literal["float32", "tfloat32", "bfloat16"]
Layout: TypeAlias = Literal["contiguous", "channels_last"]
Execution: TypeAlias = Literal["eager", "compiled", "compiled_cuda_graph"]
Optimizer: TypeAlias = Literal["default", "fused"]

#: In the order of the tables: by depth, then the light one.
NETWORKS: Final = ("ResNet-18", "ResNet-50", "MobileNetV2")
SMALL: Final = "ResNet-18"
HEAVY: Final = "ResNet-50"
LIGHT: Final = "MobileNetV2"
#: The side of an image for which the networks are made, and whose work the source prints.
IMAGE: Final = 224

LAYOUT_NAMES: Final[dict[Layout, str]] = {
    "contiguous": "contiguous",
    "channels_last": "channels last",
}
#: The element type that a precision gives to the tensors of a layer.
ELEMENTS: Final[dict[Precision, DType]] = {
    "float32": "float32",
    "tfloat32": "tfloat32",
    "bfloat16": "bfloat16",
}

_LEVELS: Final[dict[str, tuple[str, ...]]] = {
    "network": NETWORKS,
    "precision": get_args(Precision),
    "layout": get_args(Layout),
    "execution": get_args(Execution),
    "optimizer": get_args(Optimizer),
    "dataset": ("synthetic", "folder"),
}
_PROFILED: Final = ("network", "image", "batch", "precision", "layout")
_TRAINED: Final = (*_PROFILED, "execution", "optimizer", "dataset")
_REMEDY: Final = "run the experiment of this version again"


#: Subject → the factors that are looked up; those of a step are checked with their levels.
_LOOKED_UP: Final[dict[str, dict[str, Levels]]] = {
    "training": {"network": str},
    "profile": {"network": str},
    "matrix_product": {"precision": str, "side": int, "moment": ("before", "after")},
    "sensor": {"sensor": str},
}


@dataclass(frozen=True)
class Step:
    """One training step: what is computed and how.

    ``image`` are the pixels a side; ``workers`` are the processes of the loader of a folder.
    """

    network: str
    image: int
    batch: int
    precision: Precision = "float32"
    layout: Layout = "contiguous"
    execution: Execution = "eager"
    optimizer: Optimizer = "default"
    dataset: str = "synthetic"
    workers: int | None = None

    @property
    def factors(self) -> dict[str, Factor]:
        """The case as a record names it."""
        found: dict[str, Factor] = {"subject": "training"}
        found |= {name: getattr(self, name) for name in _TRAINED}
        return found if self.workers is None else {**found, "workers": self.workers}

    @property
    def profile(self) -> dict[str, Factor]:
        """The case in which the same step was watched layer by layer."""
        return {"subject": "profile"} | {name: getattr(self, name) for name in _PROFILED}

    @property
    def plain(self) -> Step:
        """The same network, image and batch as PyTorch runs it by default."""
        return Step(self.network, self.image, self.batch)

    @property
    def setting(self) -> str:
        """Precision, layout, execution and optimiser in words, without what is the default."""
        parts: list[str] = [self.precision]
        parts += [LAYOUT_NAMES[self.layout]] if self.layout != "contiguous" else []
        parts += [self.execution.replace("_", " ").replace("cuda", "CUDA")] * (
            self.execution != "eager"
        )
        parts += ["fused update"] if self.optimizer == "fused" else []
        return ", ".join(parts)

    def with_(self, **change: object) -> Step:
        """The same step in another setting."""
        return replace(self, **change)  # type: ignore[arg-type]


def step_of(case: Case) -> Step:
    """The step of a case of training or of a profile, whose factors were checked."""
    known = {n: v for n, v in case.factors.items() if n != "subject"}
    return Step(**known)  # type: ignore[arg-type]


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` if a case of training or of a profile is not one of this study."""
    check_factors(stored, _LOOKED_UP)
    for index, case in enumerate(stored.record.cases):
        subject = case.factors.get("subject")
        place = f"data/{stored.file}: cases[{index}].factors"
        if subject == "training":
            _check(case, place, _TRAINED, optional=("workers",))
        elif subject == "profile":
            _check(case, place, _PROFILED, optional=())


def _check(case: Case, place: str, needed: tuple[str, ...], optional: tuple[str, ...]) -> None:
    names = set(case.factors) - {"subject"}
    if not set(needed) <= names <= {*needed, *optional}:
        raise StudyError(
            f"{place}: expected {', '.join(needed)}, found {', '.join(sorted(names))}; {_REMEDY}."
        )
    for name, possible in _LEVELS.items():
        if name in names and case.factors[name] not in possible:
            raise StudyError(
                f"{place}.{name}: expected one of {', '.join(possible)}, found "
                f"{case.factors[name]!r}; {_REMEDY}."
            )
    for name in sorted(names & {"image", "batch"}):
        found = case.factors[name]
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise StudyError(
                f"{place}.{name}: expected a whole number from 1 on, found {found!r}; {_REMEDY}."
            )
