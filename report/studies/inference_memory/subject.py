"""What inference_memory varies: a call of a network, and what theory says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from report.errors import StudyError
from report.evidence.case_checks import Levels, check_factors
from report.records.record import Case, Factor
from report.records.store import Stored
from report.theory.conditions import Layout

Precision: TypeAlias = Literal["float32", "bfloat16", "float16"]
Execution: TypeAlias = Literal[
    "eager", "folded", "compiled", "tiled_layers", "tiled_blocks", "tiled_stages"
]

LAYOUTS: Final[tuple[Layout, ...]] = get_args(Layout)
LAYOUT_NAMES: Final[dict[Layout, str]] = {
    "contiguous": "contiguous",
    "channels_last": "channels last",
}
PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)
#: The reduced precisions, in the order in which a paper would take them.
REDUCED: Final[tuple[Precision, ...]] = ("bfloat16", "float16")
EXECUTIONS: Final[tuple[Execution, ...]] = get_args(Execution)
FUSED: Final[tuple[Execution, ...]] = ("folded", "compiled")
TILED: Final[tuple[Execution, ...]] = ("tiled_layers", "tiled_blocks", "tiled_stages")
EXECUTION_NAMES: Final[dict[Execution, str]] = {
    "eager": "eager",
    "folded": "folded",
    "compiled": "compiled",
    "tiled_layers": "each layer",
    "tiled_blocks": "each block",
    "tiled_stages": "each stage",
}

#: The networks whose batch size the source varies, by depth.
RESNETS: Final = ("ResNet-20", "ResNet-32", "ResNet-44", "ResNet-56", "ResNet-110")
#: In the order of the tables: by size of image, then by work.
NETWORKS: Final = ("LeNet-5", "CIFAR", *RESNETS, "AlexNet", "ZFNet", "VGG-16")
#: The network that is trained, and the one that is tiled.
TRAINED: Final = "ResNet-110"


_NEEDED: Final = ("network", "image", "batch", "layout", "precision", "execution")
_OPTIONAL: Final = ("tile", "memory_limit")
_REMEDY: Final = "run the experiment of this version again"


#: Subject → the factors that are looked up; those of a call are checked with their levels.
_LOOKED_UP: Final[dict[str, dict[str, Levels]]] = {
    "inference": {"network": str},
    "matrix_product": {"precision": PRECISIONS, "side": int},
    "training": {"network": str, "dataset": str},
    "accuracy": {"network": str, "dataset": str, "precision": PRECISIONS},
}


@dataclass(frozen=True)
class Call:
    """One forward call: what is computed, and how.

    ``image`` are the pixels a side, ``tile`` those of a tile, ``memory_limit`` the MiB that the
    process may take beyond what it has.
    """

    network: str
    image: int
    batch: int
    layout: Layout = "contiguous"
    precision: Precision = "float32"
    execution: Execution = "eager"
    tile: int | None = None
    memory_limit: int | None = None

    @property
    def factors(self) -> dict[str, Factor]:
        """The case as a record names it."""
        found: dict[str, Factor] = {"subject": "inference"}
        found |= {name: getattr(self, name) for name in _NEEDED}
        return found | {n: v for n in _OPTIONAL if (v := getattr(self, n)) is not None}

    @property
    def plain(self) -> bool:
        """Whether nothing is tiled and no memory is withheld."""
        return self.tile is None and self.memory_limit is None

    @property
    def setting(self) -> str:
        """Layout, precision and execution in words."""
        return ", ".join(
            (LAYOUT_NAMES[self.layout], self.precision, EXECUTION_NAMES[self.execution])
        )


def order(network: str) -> tuple[int, str]:
    """Sorts networks as the tables do, those that are not known last."""
    known = network in NETWORKS
    return (NETWORKS.index(network) if known else len(NETWORKS), network)


def call_of(case: Case) -> Call:
    """The call of a case whose factors were checked."""
    return Call(**{n: v for n, v in case.factors.items() if n != "subject"})  # type: ignore[arg-type]


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` if a case of inference is not one of this study."""
    check_factors(stored, _LOOKED_UP)
    for index, case in enumerate(stored.record.cases):
        if case.factors.get("subject") == "inference":
            _check(case, f"data/{stored.file}: cases[{index}].factors")


def _check(case: Case, place: str) -> None:
    names = set(case.factors) - {"subject"}
    if not set(_NEEDED) <= names <= {*_NEEDED, *_OPTIONAL}:
        raise StudyError(
            f"{place}: expected {', '.join(_NEEDED)} and at most {' and '.join(_OPTIONAL)}, found "
            f"{', '.join(sorted(names))}; {_REMEDY}."
        )
    levels = {"layout": LAYOUTS, "precision": PRECISIONS, "execution": EXECUTIONS}
    for name, possible in levels.items():
        if case.factors[name] not in possible:
            raise StudyError(
                f"{place}.{name}: expected one of {', '.join(possible)}, found "
                f"{case.factors[name]!r}; {_REMEDY}."
            )
    for name in names & {"image", "batch", "tile", "memory_limit"}:
        _check_count(case.factors[name], f"{place}.{name}")
    tiled = case.factors["execution"] in TILED
    if tiled != ("tile" in names):
        raise StudyError(
            f"{place}: a tile belongs to a tiled execution and to no other, found "
            f"{case.factors['execution']}; {_REMEDY}."
        )


def _check_count(found: Factor, place: str) -> None:
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise StudyError(f"{place}: expected a whole number from 1 on, found {found!r}; {_REMEDY}.")
