"""The record of a measurement that others made and published: its origin stands first.

Such a record never poses as one measured here.  It lies in ``data/<study>/imported/``, is of a type
of its own, and is neither pooled with own records nor chosen among them.  What the published file
does not say is null, with the reason in ``missing``; nothing is filled in.

Published tables have a thousand rows of the same columns.  They lie in the file as one table, a
line for each row; in memory every row is a case as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from report.records.faults import attachment_faults, case_faults
from report.records.filed import decoded, fields_of, laid_out, unit_faults
from report.records.quantities import QUANTITIES
from report.records.record import (
    Attachment,
    Bytes,
    Case,
    Count,
    DeviceKey,
    Digest,
    Factor,
    Factors,
    Measurement,
    Name,
    Positive,
    Sample,
    Slug,
    Text,
    Timestamp,
)
from report.records.strict import no_cycles, refuse_first

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


class ImportedRecord(_Part, frozen=True, kw_only=True):
    """One published file of measurements.

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
    attachments: tuple[Attachment, ...]
    cases: tuple[Case, ...]

    @property
    def label(self) -> str:
        """The device in words, with who measured on it."""
        return f"{self.environment.model} ({self.origin.author})"


def faults(record: ImportedRecord) -> Iterator[str]:
    """What the types cannot say, as «field: what was found»."""
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

REMEDY: Final = "restore the file with git, or import the published file again"

#: A case that went well: its levels, and a sample of each column, null where it has none.
Row: TypeAlias = tuple[tuple[Factor, ...], tuple[Sample | None, ...]]


class FiledImport(ImportedRecord, frozen=True, kw_only=True):
    """One published file of measurements as it lies in a file.

    ``rows`` are cases of the same ``factors`` with at most one sample of each quantity of
    ``columns``; they come before the other ``cases``.
    """

    units: dict[str, Text]
    factors: tuple[Text, ...]
    columns: tuple[Text, ...]
    rows: tuple[Row, ...]


def encode_import(record: ImportedRecord) -> bytes:
    """The record as JSON, a line for each row and case."""
    names = sorted({name for case in record.cases for name, _ in case.all_series})
    factors, columns, rows = _table(record.cases)
    cases = record.cases[len(rows) :]
    return laid_out(
        fields_of(record, ImportedRecord)
        | {
            "units": {name: QUANTITIES[name].unit for name in names},
            "factors": factors,
            "columns": columns,
            "rows": rows,
            "cases": tuple(
                msgspec.structs.replace(case, factors=dict(sorted(case.factors.items())))
                for case in cases
            ),
        }
    )


def _table(cases: Sequence[Case]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Row, ...]]:
    """Factors and columns of the first case, and the first cases that are rows of these."""
    if len(cases) < 2:
        return (), (), ()
    factors, columns = tuple(sorted(cases[0].factors)), tuple(cases[0].series)
    rows = [_row(case, factors, columns) for case in cases]
    found = tuple(row for row in takewhile(bool, rows) if row)
    return (factors, columns, found) if len(found) > 1 else ((), (), ())


def _row(case: Case, factors: Sequence[str], columns: Sequence[str]) -> Row | None:
    """The case as a row; None if it is no row of these columns."""
    plain = case.status == "ok" and not case.rounds and sorted(case.factors) == [*factors]
    single = all(len(samples) == 1 for samples in case.series.values())
    ordered = [column for column in columns if column in case.series] == [*case.series]
    if not (plain and single and ordered):
        return None
    samples = (case.series.get(column, (None,))[0] for column in columns)
    return tuple(case.factors[name] for name in factors), tuple(samples)


def parse_import(text: bytes, place: str, remedy: str = REMEDY) -> ImportedRecord:
    """Read one imported record; raises ``RecordError`` as ``report.records.filed.parse`` does."""
    with no_cycles():
        filed = decoded(text, FiledImport, IMPORT_SCHEMA, place, remedy)
        refuse_first(_table_faults(filed), place, remedy)
        cases = (*_of_rows(filed), *filed.cases)
        record = ImportedRecord(**fields_of(filed, ImportedRecord), cases=cases)  # type: ignore[arg-type]
        refuse_first(faults(record), place, remedy)
    return record


def _table_faults(filed: FiledImport) -> Iterator[str]:
    columns = Measurement(factors={}, series=dict.fromkeys(filed.columns, ()))
    yield from unit_faults(filed.units, (columns, *filed.cases), ("s",))
    expected = (len(filed.factors), len(filed.columns))
    for index, (levels, samples) in enumerate(filed.rows):
        if (len(levels), len(samples)) != expected:
            yield f"rows[{index}]: found another number of cells than of columns"


def _of_rows(filed: FiledImport) -> Iterator[Case]:
    for levels, samples in filed.rows:
        columns = zip(filed.columns, samples, strict=True)
        yield Case(
            factors=dict(zip(filed.factors, levels, strict=True)),
            series={name: (sample,) for name, sample in columns if sample is not None},
        )
