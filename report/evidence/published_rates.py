"""The published tables as plain rows, and what follows from a row by itself.

A table has a thousand networks with one sample each, so that a quantity for every cell would say
nothing that a row does not.  Quantities begin where rows become a distribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeGuard

from report.errors import StudyError
from report.evidence.network_families import Family, family_of
from report.records.imported_files import StoredImport

#: The importer of timm's tables.
_TIMM: Final = "timm_csv"
#: An element in half precision (B).
ELEMENT: Final = 2
#: Each activation is written once and read once.
TRANSFERS: Final = 2
#: Counts are printed with two decimals of a giga or mega; below this they are rounded by over 5 %.
_LEAST_MACS, _LEAST_ACTIVATIONS = 1e8, 1e5
#: The image extent at which most of the networks were trained (px).
_USUAL: Final = 224


@dataclass(frozen=True)
class Row:
    """One network at one image extent: rate in images/s, counts of one image as published."""

    network: str
    family: Family | None
    image: int
    batch: int
    rate: float
    macs: float
    activations: float
    parameters: float

    @property
    def key(self) -> tuple[str, int, int]:
        """What two rows share that may be compared."""
        return self.network, self.image, self.batch

    @property
    def work(self) -> float:
        """Achieved rate (FLOP/s): a multiply-add is two operations."""
        return 2 * self.macs * self.rate

    def intensity(self, transfers: int = TRANSFERS) -> float:
        """Operations a byte (FLOP/B) if each activation moves ``transfers`` times.

        Weights are read once a batch; what no convolution or product puts out is left out.  Asked
        of rows that are ``counted``.
        """
        moved = ELEMENT * (transfers * self.activations + self.parameters / self.batch)
        return 2 * self.macs / moved

    @property
    def counted(self) -> bool:
        """Whether its counts are printed with digits enough."""
        return self.macs >= _LEAST_MACS and self.activations >= _LEAST_ACTIVATIONS


@dataclass(frozen=True)
class Setting:
    """What all rows of a table were measured with."""

    device: str
    torch: str
    layout: str = "nchw"
    compiler: str = "none"
    precision: str = "amp"
    direction: str = "inference"


@dataclass(frozen=True)
class Published:
    """One published table; ``cases`` also counts the networks that have no time."""

    setting: Setting
    file: str
    cuda: str
    cases: int
    rows: tuple[Row, ...]

    @cached_property
    def by_key(self) -> Mapping[tuple[str, int, int], Row]:
        """The rows by what makes them comparable."""
        return {row.key: row for row in self.rows}

    @cached_property
    def last(self) -> Mapping[str, Row]:
        """The last row of each network, as a reader finds it who looks for a name alone."""
        return {row.network: row for row in self.rows}


def timm_tables(imports: Iterable[StoredImport]) -> tuple[StoredImport, ...]:
    """Those of what a study has imported that are tables of timm."""
    return tuple(each for each in imports if each.record.origin.format == _TIMM)


def published(imports: Iterable[StoredImport]) -> dict[Setting, Published]:
    """The tables by their settings; raises ``StudyError`` for a record without them."""
    found: dict[Setting, Published] = {}
    for stored in imports:
        record = stored.record
        setting = Setting(
            record.environment.model,
            (record.environment.framework or "").removeprefix("PyTorch "),
            **{name: _condition(stored, name) for name in _CONDITIONS},
        )
        rows = tuple(_rows(stored))
        cuda = record.environment.cuda or ""
        found[setting] = Published(setting, stored.file, cuda, len(record.cases), rows)
    return found


_CONDITIONS: Final = ("layout", "compiler", "precision", "direction")


def _condition(stored: StoredImport, name: str) -> str:
    if name not in stored.record.conditions:
        raise StudyError(
            f"data/{stored.file}: conditions.{name}: not found; import the file again with "
            f"--set {name}=…."
        )
    return str(stored.record.conditions[name])


def _rows(stored: StoredImport) -> Iterator[Row]:
    """The rows that have a rate; counts that a table leaves out are 0, which nothing counts on."""
    for index, case in enumerate(stored.record.cases):
        samples = {each.quantity: each.samples for each in case.series}
        if case.status == "ok" and _one(samples, "image_rate"):
            levels = [case.factors.get(name) for name in ("network", "image", "batch")]
            network, image, batch = levels
            if not (isinstance(network, str) and _extent(image) and _extent(batch)):
                raise StudyError(
                    f"data/{stored.file}: cases[{index}].factors: found {levels}, expected a "
                    "network, an image extent and a batch size; import the file again."
                )
            counts = (_one(samples, name) for name in _COUNTS)
            rate, family = _one(samples, "image_rate"), family_of(network)
            yield Row(network, family, image, batch, rate, *counts)


_COUNTS: Final = ("multiply_adds", "activations", "parameters")


def _extent(level: object) -> TypeGuard[int]:
    return isinstance(level, int) and level > 0


def _one(samples: Mapping[str, tuple[float, ...]], quantity: str) -> float:
    found = samples.get(quantity, ())
    return found[0] if len(found) == 1 else 0.0


def once(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Each network once, at the image extent nearest to the usual one."""
    nearest: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: (abs(row.image - _USUAL), row.image, -row.batch)):
        nearest.setdefault(row.network, row)
    return tuple(nearest.values())
