"""Imported records: measurements that others made and published, with their origin.

An imported record cannot be mistaken for an own one: it is stored in ``data/<study>/imported/``,
has its own type, and is neither pooled with own records nor chosen among them.  A fact that the
published file does not state is null, with the reason in ``missing``.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from report.core.records import IMPORTED
from report.core.records.record import (
    Attachment,
    ByteCount,
    Case,
    DeviceKey,
    Digest,
    Factors,
    Name,
    Positive,
    PositiveCount,
    RecordPart,
    Slug,
    Text,
    Timestamp,
)

#: Version of imported records; those of version 1 were converted.
IMPORT_SCHEMA: Final = 2

#: An SPDX licence expression, such as ``MIT`` or ``Apache-2.0 WITH LLVM-exception``.
Licence = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*$")
]
Revision = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{7,64}$")]
#: A web address that needs no escaping in a link of any format.
Address = Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s<>\"'{}|\\^`]+$")]


class Origin(RecordPart, frozen=True):
    """Author, address, licence and file of a published measurement.

    ``instrument`` is the program that measured; ``file`` and ``sha256`` describe the published
    file, ``format`` is the importer that read it, ``imported`` the time of the import.
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


class ImportedEnvironment(RecordPart, frozen=True):
    """The machine and its software, as far as the published file states them.

    ``model`` is the device that ran the cases, ``clock`` its frequency (Hz), ``power_limit`` its
    limit (W), ``framework`` the measured library with its version.
    """

    device: Literal["cpu", "cuda"]
    key: DeviceKey
    model: Name
    host_processor: Name | None = None
    threads: PositiveCount | None = None
    memory_bytes: ByteCount | None = None
    operating_system: Name | None = None
    python: Name | None = None
    framework: Name | None = None
    driver: Name | None = None
    cuda: Name | None = None
    cudnn: Name | None = None
    clock: Positive | None = None
    power_limit: Positive | None = None


class ImportedRecord(RecordPart, frozen=True, kw_only=True):
    """One published file of measurements.

    ``conditions`` hold for all cases, such as the precision; ``rounding`` is the step to which the
    file rounds a quantity, a power of ten in its unit; ``missing`` is the reason why a field is
    null, or why a fact is unknown that has no field.  ``converted_from`` is the digest of the file
    of an older version that was converted to this one.
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
    def folder(self) -> str:
        """The folder of the record, relative to the data directory."""
        return f"{self.study}/{IMPORTED}"

    @property
    def moment(self) -> str:
        """The time in the name of the record's file."""
        return self.origin.imported
