"""The record: what one run of an experiment on one machine leaves behind.

A record holds raw samples, the geometry of every layer that ran, the environment, the command and
the hash of the measuring code.  It holds no aggregate and no theory: those are computed when a
paper is built.  Reading is strict (unknown and missing fields, wrong types, NaN, impossible values)
and migrates older schema versions; parsing here is pure, files are the business of
``report.records.store``.

Schema history
    1   2026-11  first version
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from report.errors import RecordError
from report.records import strict
from report.records.faults import faults
from report.records.layers import Layer

SCHEMA_VERSION: Final = 1

#: ``MIGRATIONS[n]`` turns the plain dictionary of a version ``n`` record into one of ``n + 1``.
MIGRATIONS: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}

Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Bytes: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Slug: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]*$")]
DeviceKey: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
Timestamp: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")
]
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
FileName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*$")]
Commit: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
Factor: TypeAlias = bool | int | float | str
Sample: TypeAlias = int | float
Status: TypeAlias = Literal["ok", "out_of_memory", "unavailable", "failed"]
Plan: TypeAlias = Literal["full", "quick", "custom"]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A part of a record: immutable, every field required, no other field allowed.

    Nothing in a record can refer back to what holds it, so that the search for reference cycles
    passes it by; else reading would take longer than in proportion to the number of cases.
    """


class Code(_Part, frozen=True):
    """Which program measured."""

    commit: Commit | None
    tree_clean: bool | None
    measuring_code: Digest


class Cpu(_Part, frozen=True):
    """The processor of the machine, also of a machine with a GPU."""

    model: Text
    architecture: Text
    cores_available: Count
    governor: Text | None
    vector_extensions: tuple[Text, ...]


class Gpu(_Part, frozen=True):
    """The accelerator that ran the cases."""

    model: Text
    memory_bytes: Bytes
    compute_capability: Annotated[str, msgspec.Meta(pattern=r"^\d+\.\d+$")]
    driver: Text | None
    cuda: Text
    cudnn: Text | None


class Torch(_Part, frozen=True):
    """The framework, with the flags it was built with."""

    version: Text
    build: Text
    cpu_capability: Text


class Precision(_Part, frozen=True):
    """The switches that decide which arithmetic a float32 operation uses."""

    default_dtype: Text
    float32_matmul: Text
    cuda_matmul_tf32: bool
    cudnn_tf32: bool
    cudnn_benchmark: bool
    cudnn_deterministic: bool
    deterministic_algorithms: bool


class Environment(_Part, frozen=True):
    """The machine and the software as they were during the run.

    ``missing`` gives, for every field that is null, the reason why it could not be read.
    ``load_before`` and ``load_after`` are the one-minute load averages of the system.
    """

    device: Literal["cpu", "cuda"]
    key: DeviceKey
    cpu: Cpu
    gpu: Gpu | None
    threads: Count
    memory_bytes: Bytes
    operating_system: Text
    python: Text
    torch: Torch
    precision: Precision
    load_before: float | None
    load_after: float | None
    missing: dict[str, Text]

    @property
    def label(self) -> str:
        """The device in words, as a reader would name it; a GPU without its memory."""
        if self.gpu is not None:
            return re.sub(r"[ -]\d+ ?GB\b.*", "", self.gpu.model) or self.gpu.model
        return f"{self.cpu.model}, {self.threads} thread{'s' if self.threads > 1 else ''}"


class Series(_Part, frozen=True):
    """Raw samples of one quantity in the order in which they were taken."""

    quantity: Text
    unit: Text
    samples: tuple[Sample, ...]


class Ceiling(_Part, frozen=True):
    """A measured peak: repeated runs of a known amount of work in a fresh process.

    ``work`` is what one run does, in ``work_unit``: floating-point operations of a matrix product,
    or bytes moved (read and written) by a copy; ``samples`` are durations in seconds.
    """

    operation: Literal["matrix_product", "copy"]
    moment: Literal["before", "after"]
    dtype: Text
    size: Text
    work: Count
    work_unit: Literal["FLOP", "B"]
    samples: tuple[Sample, ...]


class Case(_Part, frozen=True):
    """One combination of factors with its outcome; ``reason`` is null exactly when it is ok."""

    factors: dict[str, Factor]
    status: Status
    reason: Text | None
    layers: tuple[Layer, ...]
    series: tuple[Series, ...]

    def samples(self, quantity: str) -> tuple[Sample, ...]:
        """The raw samples of ``quantity``, empty if the case has none."""
        return next((s.samples for s in self.series if s.quantity == quantity), ())


class Protocol(_Part, frozen=True):
    """How the run measured: which plan, how many repetitions, within which time budget."""

    plan: Plan
    seed: int
    warmup_calls: Annotated[int, msgspec.Meta(ge=0)]
    minimum_samples: Count
    maximum_samples: Count
    case_budget_s: Annotated[float, msgspec.Meta(gt=0)]
    timer: Text


class Attachment(_Part, frozen=True):
    """A file kept beside the record: what a counter printed, as it was printed.

    It lies in the folder that has the record's name without ``.json``; ``sha256`` is that of the
    file as it lies there.
    """

    name: FileName
    sha256: Digest
    meaning: Text


class Record(_Part, frozen=True):
    """One invocation of one experiment on one machine."""

    schema: Annotated[int, msgspec.Meta(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)]
    study: Slug
    started: Timestamp
    finished: Timestamp
    command: tuple[Text, ...]
    code: Code
    protocol: Protocol
    environment: Environment
    ceilings: tuple[Ceiling, ...]
    cases: tuple[Case, ...]
    attachments: tuple[Attachment, ...]


class _Versioned(msgspec.Struct):
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_REMEDY = "restore the file with git, or run the experiment again"
_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Record)
_versioned = msgspec.json.Decoder(_Versioned)


def encode(record: Record) -> bytes:
    """The record as JSON, a value a line, so that git can compare runs and people can read them."""
    return msgspec.json.format(_encoder.encode(record), indent=1)


def content_hash(record: Record) -> str:
    """Eight hexadecimal digits that change with any value of the record (not with its layout)."""
    return hashlib.sha256(_encoder.encode(record)).hexdigest()[:8]


def file_hash(text: bytes) -> str | None:
    """``content_hash`` of a record that lies as ``encode`` wrote it, without reading it.

    In any other layout the digits are others; None for what is no JSON.
    """
    try:
        return hashlib.sha256(msgspec.json.format(text, indent=-1)).hexdigest()[:8]
    except strict.NO_JSON:
        return None


def parse(text: bytes, place: str, *, as_written: bool = False) -> Record:
    """Read one record from JSON.

    ``place`` names the file in messages; ``as_written`` says that the text is one that ``encode``
    wrote, in which no field can stand twice.  Raises ``RecordError`` with the file, the field, what
    was found and what to do.
    """
    with strict.no_cycles():
        try:
            # One look at a file that is right; at any other a second one tells why it is not.
            record = _decoder.decode(text)
        except strict.NO_JSON:
            record = _other(text, place)
        if not as_written:
            strict.refuse_repeated_keys(text, place, _REMEDY)
        strict.refuse_first(faults(record), place, _REMEDY)
    return record


def _other(text: bytes, place: str) -> Record:
    """A record of an older schema; raises ``RecordError`` for what is none."""
    version = _schema_version(text, place)
    if version < SCHEMA_VERSION:
        return _migrated(text, version, place)
    return strict.parse_json(text, _decoder.decode, place, _REMEDY)


def _schema_version(text: bytes, place: str) -> int:
    """The version that the file states, one that ``parse`` can read; else ``RecordError``."""
    raw = strict.parse_json(text, _versioned.decode, place, _REMEDY).schema
    if raw is msgspec.UNSET:
        raise RecordError(
            f"{place}: schema: this field is missing, so the file's version is unknown; {_REMEDY}."
        )
    try:
        version = msgspec.json.decode(raw)
    except strict.NO_JSON:  # a number out of range
        version = None
    if not isinstance(version, int) or isinstance(version, bool):
        found = bytes(raw).decode()
        raise RecordError(f"{place}: schema: expected a whole number, found {found}; {_REMEDY}.")
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"{place}: schema: found version {version}, newer than {SCHEMA_VERSION}, the newest "
            "that this ridgepoint reads; update ridgepoint to build from it."
        )
    oldest = min(MIGRATIONS, default=SCHEMA_VERSION)
    if version < oldest:
        raise RecordError(
            f"{place}: schema: found version {version}, older than {oldest}, the oldest that this "
            "ridgepoint can migrate; run the experiment again."
        )
    return version


def _migrated(text: bytes, version: int, place: str) -> Record:
    """An older record, brought up the ladder of ``MIGRATIONS`` and then read like a new one."""
    data = strict.parse_json(text, msgspec.json.decode, place, _REMEDY)
    for step in range(version, SCHEMA_VERSION):
        try:
            data = MIGRATIONS[step](data)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RecordError(
                f"{place}: {error}: not what a record of schema version {step} holds here, so it "
                f"cannot be migrated; {_REMEDY}."
            ) from error
    try:
        return msgspec.convert(data, Record)
    except msgspec.ValidationError as error:
        raise strict.refusal(error, data, place, _REMEDY) from error
