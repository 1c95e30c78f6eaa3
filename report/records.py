"""The record: what one run of an experiment on one machine leaves behind.

A record holds raw samples, the geometry of every layer that ran, the environment, the command and
the hash of the measuring code.  It holds no aggregate and no theory: those are computed when a
paper is built.  Reading is strict (unknown and missing fields, wrong types, NaN, impossible values)
and migrates older schema versions; parsing here is pure, files are the business of
``report.store``.

Schema history
    1   2026-11  first version
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from report.errors import RecordError
from report.layers import Layer
from report.quantities import QUANTITIES

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
Commit: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
Factor: TypeAlias = bool | int | float | str
Sample: TypeAlias = int | float
Status: TypeAlias = Literal["ok", "out_of_memory", "unavailable", "failed"]
Plan: TypeAlias = Literal["full", "quick", "custom"]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a record: immutable, every field required, no other field allowed."""


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
        """The device in words, as a reader would name it."""
        if self.gpu is not None:
            return self.gpu.model
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


class _Versioned(msgspec.Struct):
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_REMEDY = "restore the file with git, or run the experiment again"
_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Record)


def encode(record: Record) -> bytes:
    """The record as canonical JSON: one line a case and a ceiling, so that git can compare runs."""
    return msgspec.json.format(_encoder.encode(record), indent=1)


def content_hash(record: Record) -> str:
    """Eight hexadecimal digits that change with any value of the record (not with its layout)."""
    return hashlib.sha256(_encoder.encode(record)).hexdigest()[:8]


def parse(text: bytes, place: str) -> Record:
    """Read one record from JSON.

    ``place`` names the file in messages.  Raises ``RecordError`` with the file, the field, what
    was found and what to do.
    """
    version = _schema_version(text, place)
    if version < SCHEMA_VERSION:
        return _checked(_migrated(text, version, place), place)
    try:
        record = _decoder.decode(text)
    except msgspec.ValidationError as error:
        raise _refusal(place, error) from error
    return _checked(record, place)


def _schema_version(text: bytes, place: str) -> int:
    try:
        raw = msgspec.json.decode(text, type=_Versioned).schema
    except msgspec.DecodeError as error:
        raise RecordError(f"{place}: not a JSON object: {_plain(error)}; {_REMEDY}.") from error
    if raw is msgspec.UNSET:
        raise RecordError(
            f"{place}: the field schema is missing, so the file's version is unknown; {_REMEDY}."
        )
    version = msgspec.json.decode(raw)
    if not isinstance(version, int) or isinstance(version, bool):
        raise RecordError(
            f"{place}: schema: expected a whole number, found {version!r}; {_REMEDY}."
        )
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"{place}: schema version {version} is newer than {SCHEMA_VERSION}, the newest that "
            "this ridgepoint reads; update ridgepoint to build from it."
        )
    oldest = min(MIGRATIONS, default=SCHEMA_VERSION)
    if version < oldest:
        raise RecordError(
            f"{place}: schema version {version} is older than {oldest}, the oldest that this "
            "ridgepoint can migrate; run the experiment again."
        )
    return version


def _migrated(text: bytes, version: int, place: str) -> Record:
    data = msgspec.json.decode(text)
    for step in range(version, SCHEMA_VERSION):
        data = MIGRATIONS[step](data)
    try:
        return msgspec.convert(data, Record)
    except msgspec.ValidationError as error:
        raise _refusal(place, error) from error


def _plain(error: Exception) -> str:
    return str(error).replace("`", "").rstrip(".")


def _refusal(place: str, error: msgspec.ValidationError) -> RecordError:
    """msgspec says «what - at `$.path`»; we say place, field, what, remedy."""
    what, _, path = str(error).partition(" - at ")
    field = re.sub(r"^\$\.?", "", path.strip("`")) or "the top level"
    return RecordError(f"{place}: {field}: {_plain(ValueError(what))}; {_REMEDY}.")


def _checked(record: Record, place: str) -> Record:
    for fault in (*_ceiling_faults(record), *_case_faults(record), *_environment_faults(record)):
        raise RecordError(f"{place}: {fault}; {_REMEDY}.")
    return record


def _environment_faults(record: Record) -> list[str]:
    environment = record.environment
    if (environment.gpu is None) != (environment.device == "cpu"):
        return [f"environment.gpu: does not fit the device {environment.device!r}"]
    loads = {"load_before": environment.load_before, "load_after": environment.load_after}
    return [
        f"environment.{name}: expected a finite number of at least 0, found {load}"
        for name, load in loads.items()
        if load is not None and not (math.isfinite(load) and load >= 0)
    ]


def _ceiling_faults(record: Record) -> list[str]:
    return [
        f"ceilings[{i}].samples[{j}]: expected a positive duration in s, found {sample}"
        for i, ceiling in enumerate(record.ceilings)
        for j, sample in enumerate(ceiling.samples)
        if not (math.isfinite(sample) and sample > 0)
    ]


def _case_faults(record: Record) -> list[str]:
    faults: list[str] = []
    seen: dict[str, int] = {}
    for i, case in enumerate(record.cases):
        where = f"cases[{i}]"
        if (case.status == "ok") != (case.reason is None):
            faults.append(
                f"{where}.reason: a case that is {case.status} "
                + ("has no reason" if case.status == "ok" else "needs a reason")
            )
        key = repr(sorted(case.factors.items()))
        if key in seen:
            faults.append(f"{where}.factors: the same combination as cases[{seen[key]}]")
        seen[key] = i
        names = [series.quantity for series in case.series]
        for j, series in enumerate(case.series):
            faults.extend(f"{where}.series[{j}]{fault}" for fault in _series_faults(series))
            if names.index(series.quantity) != j:
                faults.append(f"{where}.series[{j}].quantity: {series.quantity} stands twice")
    return faults


def _series_faults(series: Series) -> list[str]:
    quantity = QUANTITIES.get(series.quantity)
    if quantity is None:
        known = ", ".join(sorted(QUANTITIES))
        return [f".quantity: unknown quantity {series.quantity!r}, known are {known}"]
    if series.unit != quantity.unit:
        return [f".unit: {series.quantity} is measured in {quantity.unit}, found {series.unit!r}"]
    for index, sample in enumerate(series.samples):
        if not math.isfinite(sample):
            return [f".samples[{index}]: expected a finite number, found {sample}"]
        if quantity.whole and not isinstance(sample, int):
            return [f".samples[{index}]: {series.quantity} is whole, found {sample}"]
        if sample < 0 and not quantity.signed:
            return [f".samples[{index}]: {series.quantity} cannot be negative, found {sample}"]
    return []
