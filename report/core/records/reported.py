"""Published numbers: numbers printed by source studies, and data sheets of devices.

A study that repeats a published study (its source) has a file ``data/reported/<study>.json``,
written by hand from the source and read strictly.  Numbers have no separators, and are in the
printed unit.  A cell that is empty or illegible in the source is ``{"missing": "<reason>"}``.

``data/devices.yaml`` lists peak rates of devices, which are looked up by the name that the driver
reports.  A peak is dense (without structured sparsity) and at the boost clock.  Papers print such a
peak beside the measured one, never instead of it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

import msgspec

from report.core.errors import StudyError
from report.core.records.record import DeviceKey, Slug, StoredNumber, Text
from report.core.records.strict import read_strictly, refuse_first, repeated

Identifier: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_]+$")]
CitationKey: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z0-9]+$")]
Decimals: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=12)]

_REMEDY: Final = "correct the file from the source, or restore it with git"


class ReportedPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a file: immutable, without unknown fields."""


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


class ReportedTable(ReportedPart, frozen=True):
    """A table of the source, row by row; ``place`` is its name in the source (``Table I``)."""

    id: Identifier
    place: Text
    title: Text
    columns: tuple[ReportedColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: Text | None

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


_Part = TypeVar("_Part", ReportedTable, ReportedValue)


class Reported(ReportedPart, frozen=True):
    """All values of one source; ``source`` is its key in ``data/references.bib``."""

    study: Slug
    source: CitationKey
    device: Text
    software: Text
    tables: tuple[ReportedTable, ...]
    values: tuple[ReportedValue, ...]

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
    refuse_first(_faults(reported, path.stem), path, _REMEDY)
    return reported


def _faults(reported: Reported, study: str) -> Iterator[str]:
    """Yield faults that the types of the fields cannot exclude, as «field: fault»."""
    if reported.study != study:
        yield f"study: found {reported.study!r} in another study's file"
    if duplicate := repeated(table.id for table in reported.tables):
        yield f"tables: the id {duplicate!r} appears twice"
    if duplicate := repeated(value.id for value in reported.values):
        yield f"values: the id {duplicate!r} appears twice"
    for index, value in enumerate(reported.values):
        if fault := _number_fault(value.number, value.decimals):
            yield f"values[{index}].number: {fault}"
    for index, table in enumerate(reported.tables):
        for fault in _table_faults(table):
            yield f"tables[{index}].{fault}"


def _table_faults(table: ReportedTable) -> Iterator[str]:
    """Yield faults of columns and cells, as «field: fault»."""
    if duplicate := repeated(column.key for column in table.columns):
        yield f"columns: the key {duplicate!r} appears twice"
    for index, column in enumerate(table.columns):
        if (column.unit is None) != (column.decimals is None):
            yield f"columns[{index}]: a number has a unit and decimals, a text has null for both"
    for row_index, row in enumerate(table.rows):
        if len(row) != len(table.columns):
            yield f"rows[{row_index}]: expected {len(table.columns)} cells, found {len(row)}"
            continue
        for index, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            if fault := _cell_fault(cell, column):
                yield f"rows[{row_index}][{index}]: {fault}"


def _cell_fault(cell: Cell, column: ReportedColumn) -> str | None:
    """Describe a cell that does not fit its column; None if it fits or is missing in the source."""
    if isinstance(cell, Unreported):
        return None
    if column.decimals is None:
        if isinstance(cell, str):
            return None
        return f"{column.key} is text, found {cell}"
    if isinstance(cell, str):
        return f"{column.key} is a number in {column.unit}, found {cell!r}"
    return _number_fault(cell, column.decimals)


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

    def find(self, model: str) -> DataSheet | None:
        """Return the device that ``model`` names, such as ``Tesla V100-SXM2-16GB``, or None."""
        for device in self.devices:
            if device.is_named(model):
                return device
        return None


def read_devices(path: Path) -> Devices:
    """Read and check the file of devices; raises ``RecordError`` for an invalid file."""
    devices = read_strictly(path, Devices, _DEVICE_REMEDY, path.parent)
    refuse_first(_device_faults(devices), path, _DEVICE_REMEDY)
    return devices


def _contains_word(model: str, word: str) -> bool:
    """Tell whether ``model`` contains ``word`` as a whole word; «Tesla T40» does not contain T4."""
    pattern = rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])"
    return re.search(pattern, model, re.IGNORECASE) is not None


def _device_faults(devices: Devices) -> Iterator[str]:
    """Yield faults that the types of the fields cannot exclude, as «field: fault»."""
    if duplicate := repeated(device.key for device in devices.devices):
        yield f"devices: the key {duplicate!r} appears twice"
    words: list[str] = []
    for device in devices.devices:
        words += [word.lower() for word in device.matches]
    if duplicate := repeated(words):
        yield f"devices: {duplicate!r} is a match of two devices"
    for number, device in enumerate(devices.devices):
        place = f"devices[{number}].peaks"
        if duplicate := repeated(peak.operation for peak in device.peaks):
            yield f"{place}: the operation {duplicate!r} appears twice"
        for index, peak in enumerate(device.peaks):
            if peak.unit != _UNITS.get(peak.operation, _ARITHMETIC_UNIT):
                yield f"{place}[{index}].unit: {peak.unit} is no unit of {peak.operation}"
