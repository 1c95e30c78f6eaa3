"""Imported records on disk: ``data/<study>/imported/<UTC time>-<device>-<hash>.json``.

Published tables have a thousand rows of the same columns.  They lie in the file as one table, a
line for each row; in memory every row is a case as any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec

from report.errors import RecordError
from report.records import IMPORTED, strict
from report.records.filed import FiledCase, laid_out
from report.records.files import read_file
from report.records.header import Outcome
from report.records.imported import ImportedRecord, ImportedWhole, faults
from report.records.once import kept
from report.records.record import Attachment, Case, Factor, Sample, Series, Text
from report.records.store import digest, parts_of_name, write_once

_REMEDY: Final = "restore the file with git, or import the published file again"


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A measured column of a table."""

    quantity: Text
    unit: Text


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A case that went well: its levels, and a sample of each column, null where it has none."""

    levels: tuple[Factor, ...]
    samples: tuple[Sample | None, ...]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Cases of the same ``factors`` with at most one sample of each of the ``columns``."""

    factors: tuple[Text, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


class FiledImport(ImportedWhole, frozen=True):
    """One published file of measurements; the cases of ``table`` come before the others."""

    table: Table | None
    cases: tuple[FiledCase, ...]
    attachments: tuple[Attachment, ...]


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


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(FiledImport)
#: All but the cases lies in a file as it is in memory.
_SHARED: Final = tuple(name for name in ImportedRecord.__struct_fields__ if name != "cases")


# -------------------------------------------------------------------------------------- writing


def encode(record: ImportedRecord) -> bytes:
    """The record as JSON, a line for each row, series and case part."""
    return laid_out(msgspec.json.decode(_encoder.encode(_filed(record)))).encode()


def import_name(filed: FiledImport) -> str:
    """The file name: when it was imported, the device, and a short hash of the content."""
    moment = filed.origin.imported.replace("-", "").replace(":", "")
    digits = hashlib.sha256(_encoder.encode(filed)).hexdigest()[:8]
    return f"{moment}-{filed.environment.key}-{digits}.json"


def write_import(record: ImportedRecord, data: Path, attachments: dict[str, bytes]) -> Path:
    """Write ``record`` with the files that it names, once; raises ``RecordError``."""
    target = data / record.study / IMPORTED / import_name(_filed(record))
    return write_once(target, encode(record) + b"\n", record.attachments, attachments)


def _filed(record: ImportedRecord) -> FiledImport:
    table, rest = _folded(record.cases)
    if any(case.layers for case in rest):
        raise RecordError(f"{record.origin.file}: imported cases have no layers; leave them out.")
    return FiledImport(
        **{name: getattr(record, name) for name in _SHARED},
        table=table,
        cases=tuple(
            FiledCase(
                factors=case.factors,
                status=case.status,
                reason=case.reason,
                layers=None,
                series=case.series,
                rounds=case.rounds,
            )
            for case in rest
        ),
    )


def _folded(cases: Sequence[Case]) -> tuple[Table | None, Sequence[Case]]:
    """The first cases that have the columns of the very first one, as a table, and the others."""
    if not cases:
        return None, cases
    factors = tuple(sorted(cases[0].factors))
    columns = tuple(Column(series.quantity, series.unit) for series in cases[0].series)
    found = takewhile(bool, (_row(case, factors, columns) for case in cases))
    rows = tuple(row for row in found if row)
    if len(rows) < 2:
        return None, cases
    return Table(factors, columns, rows), cases[len(rows) :]


def _row(case: Case, factors: Sequence[str], columns: Sequence[Column]) -> Row | None:
    """The case as a row; None if it is no row of these columns."""
    samples = {Column(s.quantity, s.unit): s.samples for s in case.series}
    plain = case.status == "ok" and not case.rounds and not case.layers
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
        filed = strict.parse_json(text, _decoder.decode, place, remedy)
        return _whole(filed, text, place, remedy)


def _whole(filed: FiledImport, text: bytes, place: str, remedy: str) -> ImportedRecord:
    """The record with its cases; raises ``RecordError`` for what decoding does not notice."""
    with strict.no_cycles():
        strict.refuse_repeated_keys(text, place, remedy)
        strict.refuse_first(_filed_faults(filed), place, remedy)
        cases = (
            Case(
                factors=case.factors,
                status=case.status,
                reason=case.reason,
                layers=(),
                series=case.series,
                rounds=case.rounds,
            )
            for case in filed.cases
        )
        rows = _unfolded(filed.table) if filed.table else ()
        record = _record(filed, (*rows, *cases))
        strict.refuse_first(faults(record), place, remedy)
    return record


def _record(filed: FiledImport, cases: tuple[Case, ...]) -> ImportedRecord:
    return ImportedRecord(**{name: getattr(filed, name) for name in _SHARED}, cases=cases)


def _filed_faults(filed: FiledImport) -> Iterator[str]:
    """What would be lost in memory."""
    for index, case in enumerate(filed.cases):
        if case.layers is not None:
            yield f"cases[{index}].layers: found layers, which imported cases do not have"
    if filed.table is not None:
        expected = (len(filed.table.factors), len(filed.table.columns))
        for index, row in enumerate(filed.table.rows):
            if (len(row.levels), len(row.samples)) != expected:
                yield f"table.rows[{index}]: found another number of levels or samples than columns"


def _unfolded(table: Table) -> Iterator[Case]:
    for row in table.rows:
        yield Case(
            factors=dict(zip(table.factors, row.levels, strict=True)),
            status="ok",
            reason=None,
            layers=(),
            series=tuple(
                Series(quantity=column.quantity, unit=column.unit, samples=(sample,))
                for column, sample in zip(table.columns, row.samples, strict=True)
                if sample is not None
            ),
        )


def list_imports(study: str, data: Path, *, whole: bool = True) -> tuple[StoredImport, ...]:
    """All imported records of a study in the order of their names; none is not an error.

    Those that are not wanted ``whole`` have no cases, which are then not checked either.  Raises
    ``RecordError`` for the first one that cannot be used.
    """
    return tuple(_read_import(path, data, whole=whole) for path in import_paths(study, data))


def import_paths(study: str, data: Path) -> list[Path]:
    """The files of imported records of a study in the order of their names."""
    paths = (data / study / IMPORTED).glob("*.json")
    return sorted(path for path in paths if not path.name.startswith("."))


@kept
def read_import(path: Path, data: Path) -> StoredImport:
    """Read and check one imported record, as ``list_imports`` does; raises ``RecordError``."""
    return _read_import(path, data, whole=True)


def _read_import(path: Path, data: Path, *, whole: bool) -> StoredImport:
    place = (path.relative_to(data.parent) if path.is_relative_to(data.parent) else path).as_posix()
    parts_of_name(path, place)
    text = read_file(path, place, _REMEDY, data)
    filed = strict.parse_json(text, _decoder.decode, place, _REMEDY)
    record = _whole(filed, text, place, _REMEDY) if whole else _record(filed, ())
    if (record.study, IMPORTED) != (path.parent.parent.name, path.parent.name):
        raise RecordError(
            f"{place}: study: found {record.study!r}; move the file to {record.study}/{IMPORTED}."
        )
    altered = () if import_name(filed) == path.name else ("its content does not match its name",)
    file = path.relative_to(data).as_posix()
    return StoredImport(record, file, digest(text), altered, tuple(_outcomes(filed)))


def _outcomes(filed: FiledImport) -> Iterator[Outcome]:
    if filed.table is not None:
        for row in filed.table.rows:
            yield Outcome(dict(zip(filed.table.factors, row.levels, strict=False)), "ok", None)
    for case in filed.cases:
        yield Outcome(case.factors, case.status, case.reason)
