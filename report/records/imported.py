"""The record of a measurement that others made and published: its origin stands first.

Such a record never poses as one measured here.  It lies in ``data/<study>/imported/``, is of a type
of its own, and is neither pooled with own records nor chosen among them.  What the published file
does not say is null, with the reason in ``missing``; nothing is filled in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

import msgspec

from report.records.faults import (
    LONGEST_NAME,
    attachment_faults,
    case_faults,
    moment_faults,
    text_faults,
)
from report.records.quantities import LARGEST, QUANTITIES
from report.records.record import (
    Attachment,
    Bytes,
    Case,
    Count,
    DeviceKey,
    Digest,
    Factor,
    Slug,
    Text,
    Timestamp,
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
Positive = Annotated[float, msgspec.Meta(gt=0)]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A part of an imported record: every field required, no other field allowed."""


class Origin(_Part, frozen=True):
    """Who measured, where they published it and under which licence, and from which file it is.

    ``instrument`` is the program that measured; ``file`` and ``sha256`` are those of the published
    file, ``format`` the importer that read it, ``imported`` when.
    """

    author: Text
    address: Address | None
    commit: Revision | None
    licence: Licence
    instrument: Text
    instrument_version: Text | None
    format: Slug
    file: Text
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
    model: Text
    host_processor: Text | None = None
    threads: Count | None = None
    memory_bytes: Bytes | None = None
    operating_system: Text | None = None
    python: Text | None = None
    framework: Text | None = None
    driver: Text | None = None
    cuda: Text | None = None
    cudnn: Text | None = None
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
    conditions: dict[str, Factor]
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
    yield from text_faults(_texts(record), LONGEST_NAME)
    for name, step in record.rounding.items():
        if name not in QUANTITIES:
            yield f"rounding.{name}: found a name that is no quantity"
        if not math.isclose(math.log10(step), round(math.log10(step)), abs_tol=1e-9):
            yield f"rounding.{name}: expected a power of ten, found {step}"
    for name, level in record.conditions.items():
        if not isinstance(level, str) and not -LARGEST <= level <= LARGEST:
            yield f"conditions.{name}: expected a number of at most 64 bits, found {level}"
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


def _texts(record: ImportedRecord) -> dict[str, str]:
    """The texts that papers print."""
    places = {
        "origin": record.origin,
        "environment": record.environment,
        "conditions": record.conditions,
    }
    return {
        f"{place}.{name}": value
        for place, part in places.items()
        for name, value in msgspec.to_builtins(part).items()
        if isinstance(value, str)
    }
