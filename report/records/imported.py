"""The record of a measurement that others made and published: its origin stands first.

Such a record never poses as one measured here.  It lies in ``data/<study>/imported/``, is of a type
of its own, and is neither pooled with own records nor chosen among them.  What the published file
does not say is null, with the reason in ``missing``; nothing is filled in.

Published tables have a thousand rows of the same columns.  They lie in the file as one table, a
line for each row; in memory every row is a case as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from report.errors import RecordError
from report.records import ENDING, IMPORTED
from report.records.faults import attachment_faults, case_faults, moment_faults
from report.records.filed import (
    ContentError,
    FiledCase,
    alike,
    filed_case,
    known_units,
    laid_out,
    read_filed,
    whole_case,
)
from report.records.files import read_file
from report.records.once import kept
from report.records.record import (
    Attachment,
    Bytes,
    Case,
    Count,
    DeviceKey,
    Digest,
    Factor,
    Factors,
    Name,
    Outcome,
    Positive,
    Sample,
    Slug,
    Text,
    Timestamp,
)
from report.records.store import (
    digest,
    name_of,
    packed,
    parts_of_name,
    place_in,
    short_digest,
    text_of,
    write_archive,
)

#: The version of imported records; those of version 1 were converted.
IMPORT_SCHEMA: Final = 2

#: An SPDX licence expression, such as ``MIT`` or ``Apache-2.0 WITH LLVM-exception``.
Licence = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*$")
]
Revision = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{7,64}$")]
#: A web address that stands in a link of every format as it is.
Address = Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s<>\"'{}|\\^`]+$")]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A part of an imported record: every field required, no other field allowed."""


class Origin(_Part, frozen=True):
    """Who measured, where they published it and under which licence, and from which file it is.

    ``instrument`` is the program that measured; ``file`` and ``sha256`` are those of the published
    file, ``format`` the importer that read it, ``imported`` when.
    """

    author: Name
    address: Address | None
    commit: Revision | None
    licence: Licence
    instrument: Name
    instrument_version: Name | None
    format: Slug
    file: Name
    sha256: Digest
    imported: Timestamp
    given: dict[str, Text]

    @property
    def attribution(self) -> str:
        """Who measured, and under which licence, as papers print it."""
        return f"measured by {self.author}, licence {self.licence}"


class ImportedEnvironment(_Part, frozen=True):
    """The machine and its software as far as the published file tells; ``clock`` in Hz.

    ``model`` is the device that ran the cases, ``power_limit`` its limit in W, ``framework`` the
    library that was measured with its version.
    """

    device: Literal["cpu", "cuda"]
    key: DeviceKey
    model: Name
    host_processor: Name | None = None
    threads: Count | None = None
    memory_bytes: Bytes | None = None
    operating_system: Name | None = None
    python: Name | None = None
    framework: Name | None = None
    driver: Name | None = None
    cuda: Name | None = None
    cudnn: Name | None = None
    clock: Positive | None = None
    power_limit: Positive | None = None


class ImportedWhole(_Part, frozen=True, kw_only=True):
    """What an imported record says beside its cases, in memory as in its file.

    ``conditions`` hold for all cases, such as the precision; ``rounding`` is the step to which the
    file rounds a quantity, a power of ten in its unit; ``missing`` gives the reason for all that is
    null, and for more that a reader would ask for.  ``converted_from`` is the digest of the file of
    an older version that was converted to this one.
    """

    schema: Annotated[int, msgspec.Meta(ge=IMPORT_SCHEMA, le=IMPORT_SCHEMA)]
    study: Slug
    origin: Origin
    environment: ImportedEnvironment
    started: Timestamp | None
    finished: Timestamp | None
    conditions: Factors
    rounding: dict[str, Positive]
    missing: dict[str, Text]
    converted_from: Digest | None = None


class ImportedRecord(ImportedWhole, frozen=True, kw_only=True):
    """One published file of measurements."""

    cases: tuple[Case, ...]
    attachments: tuple[Attachment, ...]

    @property
    def label(self) -> str:
        """The device in words, with who measured on it."""
        return f"{self.environment.model} ({self.origin.author})"


def faults(record: ImportedRecord) -> Iterator[str]:
    """What the types cannot say, as «field: what was found»."""
    moments = {"started": record.started, "finished": record.finished}
    known = {name: moment for name, moment in moments.items() if moment is not None}
    yield from moment_faults({**known, "origin.imported": record.origin.imported})
    yield from _silent_nulls(record)
    shared = {name for case in record.cases for name in case.factors} & record.conditions.keys()
    for name in sorted(shared):
        yield f"conditions.{name}: found a name that is a factor of cases too"
    yield from case_faults(record.cases)
    yield from attachment_faults(record.attachments)


def nullable(record: ImportedRecord) -> Mapping[str, object]:
    """What a published file may leave open, by the names that ``missing`` has for it."""
    environment, origin = record.environment, record.origin
    fields = ImportedEnvironment.__struct_fields__
    return {
        "started": record.started,
        "finished": record.finished,
        **{name: getattr(origin, name) for name in ("address", "commit", "instrument_version")},
        **{name: getattr(environment, name) for name in fields},
    }


def _silent_nulls(record: ImportedRecord) -> Iterator[str]:
    """What is null without a reason, or has a reason although it is known."""
    for name, value in nullable(record).items():
        if value is None and name not in record.missing:
            yield f"missing: found no reason why {name} is null"
        if value is not None and name in record.missing:
            yield f"missing.{name}: found a reason for what is not null"


# ------------------------------------------------------------------------------------- the file

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

    @property
    def label(self) -> str:
        """The device in words, with who measured on it."""
        return self.record.label

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """How each of its cases ended."""
        return tuple(Outcome(c.factors, c.status, c.reason) for c in self.record.cases)


_decoder = msgspec.json.Decoder(FiledImport)


# -------------------------------------------------------------------------------------- writing


def encode(record: ImportedRecord) -> bytes:
    """The record as JSON, a line for each row and case."""
    units = {each.quantity: each.unit for case in record.cases for each in case.all_series}
    factors, columns, rows = _table(record.cases)
    return laid_out(
        alike(
            FiledImport,
            record,
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
    return write_archive(data / record.study / IMPORTED / name, packed(text, attachments))


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
    return read_filed(text, place, remedy, _decoder, IMPORT_SCHEMA, _record, faults)


def _record(filed: FiledImport) -> ImportedRecord:
    """Raises ``ContentError``."""
    return alike(ImportedRecord, filed, cases=tuple(_cases(filed)))


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


def list_imports(study: str, data: Path) -> tuple[StoredImport, ...]:
    """All imported records of a study in the order of their names; none is not an error.

    Raises ``RecordError`` for the first one that cannot be used.
    """
    return tuple(read_import(path, data) for path in import_paths(study, data))


def import_paths(study: str, data: Path) -> list[Path]:
    """The files of imported records of a study in the order of their names."""
    paths = (data / study / IMPORTED).glob(f"*{ENDING}")
    return sorted(path for path in paths if not path.name.startswith("."))


@kept
def read_import(path: Path, data: Path) -> StoredImport:
    """Read and check one imported record, as ``list_imports`` does; raises ``RecordError``."""
    place = place_in(path, data)
    name = parts_of_name(path, place)
    content = read_file(path, place, _REMEDY, data)
    text = text_of(content, place, _REMEDY)
    record = parse_import(text, place)
    if (record.study, IMPORTED) != (path.parent.parent.name, path.parent.name):
        raise RecordError(
            f"{place}: study: found {record.study!r}; move the file to {record.study}/{IMPORTED}."
        )
    same = short_digest(text) == name["hash"]
    altered = () if same else ("its content does not match its name",)
    return StoredImport(record, path.relative_to(data).as_posix(), digest(content), altered)
