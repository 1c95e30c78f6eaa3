"""Published numbers: numbers printed by source studies, and data sheets of devices.

A study that repeats a published study (its source) has a file ``data/reported/<study>.json``,
written by hand from the source and read strictly.  Numbers have no separators, and are in the
printed unit.  A cell that is empty or illegible in the source is ``{"missing": "<reason>"}``.

``data/devices.yaml`` lists peak rates of devices, which are looked up by the name that the driver
reports.  A peak is dense (without structured sparsity) and at the boost clock.  Papers print such a
peak beside the measured one, never instead of it.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

import msgspec

from report.core.errors import RecordError, StudyError
from report.core.records.record import DeviceKey, Slug, StoredNumber, Text
from report.core.records.strict import place_of, read_strictly, repeated

Identifier: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_]+$")]
CitationKey: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z0-9]+$")]
Decimals: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=12)]

_REMEDY: Final = "correct the file from the source, or restore it with git"


def _refuse_repeats(field: str, names: Iterable[str]) -> None:
    """Raise ``ValueError`` for a name that appears twice."""
    if duplicate := repeated(names):
        raise ValueError(f"{field}: {duplicate!r} appears twice")


class ReportedPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a file: immutable, without unknown fields.

    ``__post_init__`` of a part raises ``ValueError`` for faults that the types of the fields cannot
    exclude; msgspec adds the place of the part.
    """


class Unreported(ReportedPart, frozen=True):
    """A cell without a value, and the reason."""

    missing: Text


Cell: TypeAlias = StoredNumber | str | Unreported


class ReportedColumn(ReportedPart, frozen=True):
    """A column of numbers, with their printed unit and decimals, or of texts (both null)."""

    key: Slug
    name: Text
    unit: Text | None
    decimals: Decimals | None

    def __post_init__(self) -> None:
        if (self.unit is None) != (self.decimals is None):
            raise ValueError("a number has a unit and decimals, a text has null for both")

    def fault(self, cell: Cell) -> str | None:
        """Describe a cell that does not fit; None if it fits or is missing in the source."""
        if isinstance(cell, Unreported):
            return None
        if self.decimals is None:
            return None if isinstance(cell, str) else f"{self.key} is text, found {cell}"
        if isinstance(cell, str):
            return f"{self.key} is a number in {self.unit}, found {cell!r}"
        return _number_fault(cell, self.decimals)


class ReportedTable(ReportedPart, frozen=True):
    """A table of the source, row by row; ``place`` is its name in the source (``Table I``)."""

    id: Identifier
    place: Text
    title: Text
    columns: tuple[ReportedColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: Text | None

    def __post_init__(self) -> None:
        _refuse_repeats("columns", (column.key for column in self.columns))
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                fault = f"expected {len(self.columns)} cells, found {len(row)}"
                raise ValueError(f"rows[{number}]: {fault}")
            for index, (cell, column) in enumerate(zip(row, self.columns, strict=True)):
                if reason := column.fault(cell):
                    raise ValueError(f"rows[{number}][{index}]: {reason}")

    def column(self, key: str) -> tuple[Cell, ...]:
        """Return the cells of the column ``key``; raises ``StudyError`` if there is none."""
        keys = [column.key for column in self.columns]
        if key not in keys:
            raise StudyError(
                f"{self.place} of the reported values has no column {key!r}; "
                f"its columns are {', '.join(keys)}."
            )
        position = keys.index(key)
        return tuple(row[position] for row in self.rows)


class ReportedValue(ReportedPart, frozen=True):
    """A single number that the source prints outside its tables."""

    id: Identifier
    place: Text
    name: Text
    number: StoredNumber
    unit: Text
    decimals: Decimals
    note: Text | None

    def __post_init__(self) -> None:
        if fault := _number_fault(self.number, self.decimals):
            raise ValueError(f"number: {fault}")


_Part = TypeVar("_Part", ReportedTable, ReportedValue)


class Reported(ReportedPart, frozen=True):
    """All values of one source; ``source`` is its key in ``data/references.bib``."""

    study: Slug
    source: CitationKey
    device: Text
    software: Text
    tables: tuple[ReportedTable, ...]
    values: tuple[ReportedValue, ...]

    def __post_init__(self) -> None:
        _refuse_repeats("tables", (table.id for table in self.tables))
        _refuse_repeats("values", (value.id for value in self.values))

    def table(self, id: str, rows: int | None = None) -> ReportedTable:
        """Return the table ``id``.

        Raises ``StudyError`` if there is none, or if its number of rows is not ``rows`` (if given).
        """
        table = self._part_with_id("table", self.tables, id)
        if rows is not None and len(table.rows) != rows:
            raise self.fault(f"{table.place}: expected {rows} rows, found {len(table.rows)}")
        return table

    def value(self, id: str) -> ReportedValue:
        """Return the single value ``id``; raises ``StudyError`` if there is none."""
        return self._part_with_id("value", self.values, id)

    def count(self, id: str) -> int:
        """Return the number of the value ``id``; raises ``StudyError`` unless it is whole."""
        return self.whole(self.value(id).number, id)

    def whole(self, cell: Cell, place: str) -> int:
        """Return ``cell``; raises ``StudyError``, which names ``place``, unless it is whole."""
        if isinstance(cell, int):
            return cell
        raise self.fault(f"{place}: expected a whole number, found {cell!r}")

    def fault(self, fault: str) -> StudyError:
        """Return an error about the file: ``fault`` describes what the study needs."""
        return StudyError(f"data/reported/{self.study}.json: {fault}; restore the file with git.")

    def _part_with_id(self, kind: str, parts: tuple[_Part, ...], id: str) -> _Part:
        """Return the part ``id``; raises ``StudyError`` with the ``kind`` of part if missing."""
        for part in parts:
            if part.id == id:
                return part
        if not self.source:
            raise self.fault(f"no {kind} {id!r}: the file is missing")
        ids = ", ".join(part.id for part in parts) or "none"
        raise self.fault(f"no {kind} {id!r}: it has {ids}")


def read_reported(path: Path) -> Reported:
    """Read and check one file of reported values; raises ``RecordError`` for an invalid file.

    If there is no file the result is empty, since not every study repeats a published study.
    """
    if not path.exists() and not path.is_symlink():
        return Reported(study=path.stem, source="", device="", software="", tables=(), values=())
    reported = read_strictly(path, Reported, _REMEDY, path.parents[1])
    if reported.study != path.stem:
        fault = f"study: found {reported.study!r} in another study's file"
        raise RecordError(f"{place_of(path)}: {fault}; {_REMEDY}.")
    return reported


def _number_fault(number: float, decimals: int) -> str | None:
    """Describe a number with more than ``decimals`` decimals, or return None."""
    if decimals == 0 and not isinstance(number, int):
        return f"printed without decimals, found {number}"
    if round(number, decimals) != number:
        return f"printed with {decimals} decimals, found {number}"
    return None


RatedQuantity: TypeAlias = Literal[
    "float32", "tfloat32", "bfloat16", "float16", "memory", "cache", "capacity"
]

_DEVICE_REMEDY: Final = "fix the file by the data sheet, or restore it with git"
#: Rated quantity → its printed unit; other rated quantities are rates of arithmetic.
_UNITS: Final = {"memory": "GB/s", "cache": "MiB", "capacity": "GB"}
_ARITHMETIC_UNIT: Final = "TFLOP/s"
#: Printed unit → factor that converts it to FLOP/s, B/s or B.
_FACTORS: Final = {"TFLOP/s": 1e12, "GB/s": 1e9, "MiB": 2**20, "GB": 1e9}


class RatedPeak(ReportedPart, frozen=True):
    """One line of a data sheet, in the printed unit.

    ``operation``: ``memory`` (bandwidth), ``capacity`` (of the memory), ``cache`` (size of the last
    level), or the element type of arithmetic: float32 on ordinary cores, shorter types on matrix
    units.  ``verified``: false for a value that was not compared with a document; no paper prints
    such a value.  ``sparse``: the peak with structured sparsity, if the data sheet prints it.
    """

    operation: RatedQuantity
    value: Annotated[float, msgspec.Meta(gt=0, le=1e6)]
    unit: Literal["TFLOP/s", "GB/s", "MiB", "GB"]
    source: CitationKey
    verified: bool
    sparse: Annotated[float, msgspec.Meta(gt=0)] | None = None

    def __post_init__(self) -> None:
        if self.unit != _UNITS.get(self.operation, _ARITHMETIC_UNIT):
            raise ValueError(f"unit: {self.unit} is no unit of {self.operation}")

    @property
    def rate(self) -> float:
        """The peak in FLOP/s or B/s, or the size in B."""
        return self.value * _FACTORS[self.unit]


class DataSheet(ReportedPart, frozen=True):
    """A device; its driver reports a name with a word of ``matches`` and none of ``excludes``."""

    key: DeviceKey
    name: Text
    matches: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]
    excludes: tuple[Text, ...]
    peaks: tuple[RatedPeak, ...]

    def __post_init__(self) -> None:
        _refuse_repeats("peaks", (peak.operation for peak in self.peaks))

    def is_named(self, model: str) -> bool:
        """Tell whether ``model``, as the driver reports it, names this device."""
        if any(_contains_word(model, word) for word in self.excludes):
            return False
        return any(_contains_word(model, word) for word in self.matches)

    def peak(self, operation: RatedQuantity) -> RatedPeak | None:
        """Return the peak of an operation, or None if it is unknown or not verified."""
        for peak in self.peaks:
            if peak.operation == operation and peak.verified:
                return peak
        return None


class Devices(ReportedPart, frozen=True):
    """All devices whose data sheets are known."""

    devices: tuple[DataSheet, ...]

    def __post_init__(self) -> None:
        _refuse_repeats("keys", (device.key for device in self.devices))
        words: list[str] = []
        for device in self.devices:
            words += [word.lower() for word in device.matches]
        _refuse_repeats("matches", words)

    def find(self, model: str) -> DataSheet | None:
        """Return the device that ``model`` names, such as ``Tesla V100-SXM2-16GB``, or None."""
        for device in self.devices:
            if device.is_named(model):
                return device
        return None


def read_devices(path: Path) -> Devices:
    """Read and check the file of devices; raises ``RecordError`` for an invalid file."""
    return read_strictly(path, Devices, _DEVICE_REMEDY, path.parent)


def _contains_word(model: str, word: str) -> bool:
    """Tell whether ``model`` contains ``word`` as a whole word; «Tesla T40» does not contain T4."""
    pattern = rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])"
    return re.search(pattern, model, re.IGNORECASE) is not None
