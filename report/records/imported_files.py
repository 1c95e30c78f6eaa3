"""Imported records on disk: ``data/<study>/imported/<UTC time>-<device>-<hash>.zip``.

Published tables have a thousand rows of the same columns.  They lie in the file as one table, a
line for each row; in memory every row is a case as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec

from report.errors import RecordError
from report.records import ENDING, IMPORTED, strict
from report.records.filed import (
    ContentError,
    FiledCase,
    check_version,
    filed_case,
    known_units,
    laid_out,
    whole_case,
)
from report.records.files import read_file
from report.records.imported import IMPORT_SCHEMA, ImportedRecord, ImportedWhole, faults
from report.records.once import kept
from report.records.record import Attachment, Case, Factor, Outcome, Sample, Text
from report.records.store import digest, name_of, parts_of_name, short_digest, text_of, write_once

_REMEDY: Final = "restore the file with git, or import the published file again"


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A case that went well: its levels, and a sample of each column, null where it has none."""

    levels: tuple[Factor, ...]
    samples: tuple[Sample | None, ...]


class FiledImport(ImportedWhole, frozen=True, kw_only=True):
    """One published file of measurements.

    ``rows`` are cases of the same ``factors`` with at most one sample of each quantity of
    ``columns``; they come before the other ``cases``.
    """

    attachments: tuple[Attachment, ...]
    units: dict[str, Text]
    factors: tuple[Text, ...]
    columns: tuple[Text, ...]
    rows: tuple[Row, ...]
    cases: tuple[FiledCase, ...]


@dataclass(frozen=True)
class StoredImport:
    """An imported record with its file, relative to the data directory, and that file's digest."""

    record: ImportedRecord
    file: str
    sha256: str
    #: In which ways the content is not what the file's name says, in words; none if it is.
    alterations: tuple[str, ...] = ()
    #: How each of its cases ended.
    outcomes: tuple[Outcome, ...] = ()

    @property
    def label(self) -> str:
        """The device in words, with who measured on it."""
        return self.record.label


_decoder = msgspec.json.Decoder(FiledImport)
#: What lies in a file as it is in memory.
_SHARED: Final = (*ImportedWhole.__struct_fields__, "attachments")


# -------------------------------------------------------------------------------------- writing


def encode(record: ImportedRecord) -> bytes:
    """The record as JSON, a line for each row and case."""
    if any(case.layers for case in record.cases):
        raise RecordError(f"{record.origin.file}: imported cases have no layers; leave them out.")
    units = {each.quantity: each.unit for case in record.cases for each in case.all_series}
    factors, columns, rows = _table(record.cases)
    return laid_out(
        FiledImport(
            **{name: getattr(record, name) for name in _SHARED},
            units=dict(sorted(units.items())),
            factors=factors,
            columns=columns,
            rows=rows,
            cases=tuple(filed_case(case, units, None) for case in record.cases[len(rows) :]),
        )
    )


def write_import(record: ImportedRecord, data: Path, attachments: dict[str, bytes]) -> Path:
    """Write ``record`` with the files that it names, once; raises ``RecordError``."""
    text = encode(record)
    name = name_of(text, record.origin.imported, record.environment.key)
    return write_once(data / record.study / IMPORTED / name, text, record.attachments, attachments)


def _table(cases: Sequence[Case]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Row, ...]]:
    """Factors and columns of the first case, and the first cases that are rows of these."""
    if not cases:
        return (), (), ()
    factors = tuple(sorted(cases[0].factors))
    columns = tuple(series.quantity for series in cases[0].series)
    rows = tuple(takewhile(bool, (_row(case, factors, columns) for case in cases)))
    found = tuple(row for row in rows if row)
    return (factors, columns, found) if len(found) > 1 else ((), (), ())


def _row(case: Case, factors: Sequence[str], columns: Sequence[str]) -> Row | None:
    """The case as a row; None if it is no row of these columns."""
    samples = {series.quantity: series.samples for series in case.series}
    plain = case.status == "ok" and not case.rounds
    single = all(len(found) == 1 for found in samples.values())
    ordered = [column for column in columns if column in samples] == list(samples)
    if not (plain and single and ordered and tuple(sorted(case.factors)) == tuple(factors)):
        return None
    levels = tuple(case.factors[name] for name in factors)
    return Row(levels, tuple(samples.get(column, (None,))[0] for column in columns))


# -------------------------------------------------------------------------------------- reading


def parse_import(text: bytes, place: str, remedy: str = _REMEDY) -> ImportedRecord:
    """Read one imported record; raises ``RecordError`` as ``report.records.filed.parse`` does."""
    with strict.no_cycles():
        filed = _filed(text, place, remedy)
        return _whole(filed, text, place, remedy)


def _filed(text: bytes, place: str, remedy: str) -> FiledImport:
    try:
        return _decoder.decode(text)
    except strict.NO_JSON:
        check_version(text, place, IMPORT_SCHEMA, remedy)
        return strict.parse_json(text, _decoder.decode, place, remedy)


def _whole(filed: FiledImport, text: bytes, place: str, remedy: str) -> ImportedRecord:
    """The record with its cases; raises ``RecordError`` for what decoding does not notice."""
    strict.refuse_repeated_keys(text, place, remedy)
    try:
        record = _record(filed, tuple(_cases(filed)))
    except ContentError as error:
        raise RecordError(f"{place}: {error}; {remedy}.") from error
    strict.refuse_first(faults(record), place, remedy)
    return record


def _record(filed: FiledImport, cases: tuple[Case, ...]) -> ImportedRecord:
    return ImportedRecord(**{name: getattr(filed, name) for name in _SHARED}, cases=cases)


def _cases(filed: FiledImport) -> Iterator[Case]:
    """All cases, those of the rows first; raises ``ContentError``."""
    units = known_units(filed.units)
    expected = (len(filed.factors), len(filed.columns))
    for index, row in enumerate(filed.rows):
        if (len(row.levels), len(row.samples)) != expected:
            raise ContentError(f"rows[{index}]: found another number of cells than of columns")
        case = FiledCase(
            factors=dict(zip(filed.factors, row.levels, strict=True)),
            series={
                name: (sample,)
                for name, sample in zip(filed.columns, row.samples, strict=True)
                if sample is not None
            },
        )
        yield whole_case(case, units, (), f"rows[{index}]")
    for index, case in enumerate(filed.cases):
        if case.layers is not None:
            raise ContentError(f"cases[{index}].layers: imported cases do not have layers")
        yield whole_case(case, units, (), f"cases[{index}]")


def list_imports(study: str, data: Path, *, whole: bool = True) -> tuple[StoredImport, ...]:
    """All imported records of a study in the order of their names; none is not an error.

    Those that are not wanted ``whole`` have no cases, which are then not checked either.  Raises
    ``RecordError`` for the first one that cannot be used.
    """
    return tuple(_read_import(path, data, whole=whole) for path in import_paths(study, data))


def import_paths(study: str, data: Path) -> list[Path]:
    """The files of imported records of a study in the order of their names."""
    paths = (data / study / IMPORTED).glob(f"*{ENDING}")
    return sorted(path for path in paths if not path.name.startswith("."))


@kept
def read_import(path: Path, data: Path) -> StoredImport:
    """Read and check one imported record, as ``list_imports`` does; raises ``RecordError``."""
    return _read_import(path, data, whole=True)


def _read_import(path: Path, data: Path, *, whole: bool) -> StoredImport:
    place = (path.relative_to(data.parent) if path.is_relative_to(data.parent) else path).as_posix()
    name = parts_of_name(path, place)
    content = read_file(path, place, _REMEDY, data)
    text = text_of(content, place, _REMEDY)
    with strict.no_cycles():
        filed = _filed(text, place, _REMEDY)
        record = _whole(filed, text, place, _REMEDY) if whole else _record(filed, ())
    if (record.study, IMPORTED) != (path.parent.parent.name, path.parent.name):
        raise RecordError(
            f"{place}: study: found {record.study!r}; move the file to {record.study}/{IMPORTED}."
        )
    same = short_digest(text) == name["hash"]
    altered = () if same else ("its content does not match its name",)
    file = path.relative_to(data).as_posix()
    return StoredImport(record, file, digest(content), altered, tuple(_outcomes(filed)))


def _outcomes(filed: FiledImport) -> Iterator[Outcome]:
    for row in filed.rows:
        yield Outcome(dict(zip(filed.factors, row.levels, strict=False)))
    for case in filed.cases:
        yield Outcome(case.factors, case.status, case.reason)
