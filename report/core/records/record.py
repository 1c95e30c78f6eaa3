"""The record: the result of one run of an experiment on one machine.

A record contains raw samples, the geometry of every layer that ran, the environment, the command
and the hash of the measuring code.  Aggregates and theory are computed when a paper is built.  The
module ``file_format`` encodes and parses records, ``store`` reads and writes their files.
"""

import math
import re
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, cast

import msgspec

from report.core.records.layers import Layer
from report.core.records.quantities import LARGEST, SHORTEST_S

#: Version of the format.  Records of versions 1 to 3 were converted (see ``Head.converted_from``).
SCHEMA_VERSION: Final = 4

#: Longest name (characters) that a table can print.
LONGEST_NAME: Final = 200

#: A number; bounded, so that no computation with it overflows.
StoredNumber: TypeAlias = (
    Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
    | Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
)
NonNegative: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=LARGEST)]
Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
Reason: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
PositiveCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
#: Number of processes of a case, or of shards of a run; bounded, since code loops over them.
Repeats: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
#: Number that identifies a process or a shard, from 1.
Position: TypeAlias = Repeats
ByteCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
#: A name in lower case with underscores, such as ``conv_scaling``.
Slug: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]*$")]
DeviceKey: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
#: A time in UTC, such as ``2026-11-30T12:00:00Z``.
Timestamp: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern="^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
        "T([01][0-9]|2[0-3])(:[0-5][0-9]){2}Z$"
    ),
]
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
FileName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*$")]
Commit: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
#: A value of a factor of cases, such as 64 for the factor ``batch``.
Level: TypeAlias = bool | StoredNumber | Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
Factors: TypeAlias = dict[Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)], Level]
Sample: TypeAlias = StoredNumber
#: A positive duration, in s or in whole ns.
Duration: TypeAlias = PositiveCount | Annotated[float, msgspec.Meta(ge=SHORTEST_S, le=LARGEST)]
Status: TypeAlias = Literal["ok", "out_of_memory", "unavailable", "failed"]
PlanName: TypeAlias = Literal["full", "quick", "custom"]
#: Memory policies, the settings of the C library's allocator during a measurement: ``default``
#: returns freed memory to the system, ``retained`` and ``jemalloc`` keep it; ``mmap_threshold``,
#: ``trim_threshold`` and ``thresholds`` (both) fix glibc's thresholds for returning memory;
#: ``traced`` is ``default`` with tracing of blocks.
Policy: TypeAlias = Literal[
    "default", "retained", "jemalloc", "mmap_threshold", "trim_threshold", "thresholds", "traced"
]
#: When a ceiling was measured, relative to the cases of its run.
Moment: TypeAlias = Literal["before", "during", "after"]
#: Reason for a value that is missing in the record of a run that was ended early.
ENDED: Final = "the run was ended before this was measured"
#: Number of samples from which ``packed`` saves memory.
_FEWEST_PACKED: Final = 4
#: Number of processes from which their smallest and largest value bound the median with at least
#: 95 % confidence: with 6 values the confidence is 1 - 2 / 2^6 = 96.9 %.
FEWEST_PROCESSES: Final = 6
#: Passes of a layer, which studies measure together or apart.
Pass: TypeAlias = Literal["forward", "forward_backward"]
PASSES: Final[tuple[Pass, ...]] = ("forward", "forward_backward")
#: Operations whose measured peak rate is a ceiling.
PeakOperation: TypeAlias = Literal[
    "matrix_product", "convolution", "copy", "read", "triad", "page_mapping"
]
#: Units of the work of a ``PeakOperation``; 1 for pages.
WorkUnit: TypeAlias = Literal["FLOP", "B", "1"]


class RecordPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A part of a record: immutable, without unknown fields.

    ``gc=False``: a record has no reference cycles.  Python's search for cycles would make reading
    slower than linear in the number of cases.
    """


class Code(RecordPart, frozen=True):
    """The version of the program that measured."""

    commit: Commit | None
    tree_clean: bool | None
    measuring_code: Digest


class Cpu(RecordPart, frozen=True):
    """The processor of the machine, recorded for machines with a GPU too."""

    model: Name
    architecture: Text
    cores_available: PositiveCount
    governor: Text | None
    vector_extensions: tuple[Text, ...]


class Gpu(RecordPart, frozen=True):
    """The accelerator that ran the cases."""

    model: Name
    memory_bytes: ByteCount
    compute_capability: Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+$")]
    driver: Text | None
    cuda: Text
    cudnn: Text | None


class Torch(RecordPart, frozen=True):
    """The version of PyTorch and its build flags."""

    version: Name
    build: Text
    cpu_capability: Text


class PrecisionSwitches(RecordPart, frozen=True):
    """PyTorch's switches that select the arithmetic of float32 operations."""

    default_dtype: Text
    float32_matmul: Text
    cuda_matmul_tf32: bool
    cudnn_tf32: bool
    cudnn_benchmark: bool
    cudnn_deterministic: bool
    deterministic_algorithms: bool


class Cache(RecordPart, frozen=True):
    """A cache of the processor; ``cores`` is the number of cores that share it."""

    level: PositiveCount
    kind: Literal["data", "instruction", "unified"]
    size_bytes: PositiveCount
    cores: PositiveCount


def cache_bytes_by_level(caches: Iterable[Cache], cores: int) -> dict[int, int]:
    """Map each cache level, lowest first, to the bytes of data that ``cores`` cores store in it.

    The cores are assumed to use as few caches as possible, since the system may run the threads on
    any cores.  The opposite assumption could overstate the peak in the roofline.
    """
    by_level: dict[int, int] = {}
    for cache in sorted(caches, key=attrgetter("level")):
        if cache.kind != "instruction":
            used_caches = math.ceil(cores / cache.cores)
            by_level[cache.level] = cache.size_bytes * used_caches
    return by_level


def last_cache_bytes(caches: Iterable[Cache], cores: int) -> int | None:
    """Return the bytes of the last cache level for ``cores`` cores; None if it is unknown."""
    by_level = cache_bytes_by_level(caches, cores)
    return by_level[max(by_level)] if by_level else None


class Host(RecordPart, frozen=True):
    """Details that distinguish this machine from others of the same name; null if unknown.

    ``flags``: all features that the processor reports.  ``machine``: a random identifier, which
    only runs of November 2026 recorded.
    """

    vendor: Text | None
    family: int | None
    model: int | None
    stepping: int | None
    microcode: Text | None
    flags: tuple[Text, ...]
    caches: tuple[Cache, ...]
    sockets: PositiveCount | None
    virtualisation: Text | None
    c_library: Text | None
    machine: Text | None = None


class Environment(RecordPart, frozen=True, kw_only=True):
    """The machine and the software during the run.

    ``missing``: null field, or missing quantity → reason.  ``name``: the user's name for the
    machine.  ``variables``: environment variables that change times or results.  ``load_before``,
    ``load_after``: one-minute load averages, recorded until November 2026; later runs detect
    disturbances while they measure.  ``conditions``: state of the processor (affinity, kinds of
    core, governor, turbo, throttling).
    """

    device: Literal["cpu", "cuda"]
    key: DeviceKey
    cpu: Cpu
    gpu: Gpu | None
    threads: PositiveCount
    memory_bytes: ByteCount
    operating_system: Name
    python: Name
    torch: Torch
    precision: PrecisionSwitches
    load_before: NonNegative | None = None
    load_after: NonNegative | None = None
    missing: dict[str, Text]
    name: Name | None = None
    host: Host | None = None
    variables: dict[str, str] = {}
    conditions: dict[str, str] = {}

    @property
    def label(self) -> str:
        """The device for readers: a GPU without its memory size, or a CPU with its threads.

        The user's name for the machine replaces the name of the model.
        """
        if self.gpu is not None:
            without_memory_size = re.sub(r"[ -]\d+ ?GB\b.*", "", self.gpu.model)
            return self.name or without_memory_size or self.gpu.model
        family, model = (self.host.family, self.host.model) if self.host else (None, None)
        processor = _with_microarchitecture(self.cpu.model, family, model)
        return f"{self.name or processor}{self.threads_text}"

    @property
    def threads_text(self) -> str:
        """The number of threads, as at the end of ``label``."""
        return f", {self.threads} thread{'s' if self.threads > 1 else ''}"


#: AMD's microarchitecture → processor family, and ranges of model numbers; copied from Linux
#: (arch/x86/kernel/cpu/amd.c, ``bsp_init_amd``, https://git.kernel.org).
_ZEN_MODELS: Final[dict[str, tuple[int, tuple[range, ...]]]] = {
    "Zen": (0x17, (range(0x30), range(0x50, 0x60))),
    "Zen 2": (0x17, (range(0x30, 0x50), range(0x60, 0x80), range(0x90, 0x92), range(0xA0, 0xB0))),
    "Zen 3": (0x19, (range(0x10), range(0x20, 0x60))),
    "Zen 4": (0x19, (range(0x10, 0x20), range(0x60, 0xB0))),
    "Zen 5": (0x1A, (range(0x10), range(0x20, 0x30), range(0x40, 0x50), range(0x70, 0x80))),
}


def _with_microarchitecture(name: str, family: int | None, model: int | None) -> str:
    """Add the microarchitecture to an AMD ``name`` without digits; return other names unchanged.

    A name with a model number, such as AMD EPYC 7763, already identifies the microarchitecture.
    """
    if not name.startswith("AMD ") or any(char.isdigit() for char in name):
        return name
    for microarchitecture, (zen_family, model_ranges) in _ZEN_MODELS.items():
        if family == zen_family and any(model in models for models in model_ranges):
            return f"{name} ({microarchitecture})"
    return name


def in_seconds(samples: Iterable[Sample]) -> tuple[float, ...]:
    """Convert whole nanoseconds to the nearest floats in seconds."""
    return tuple([sample / 1e9 for sample in samples])


if TYPE_CHECKING:
    #: Samples in order.
    Samples: TypeAlias = Sequence[Sample]
else:
    # msgspec decodes samples to a tuple; ``packed`` may replace it by an array.
    Samples = tuple[Sample, ...]
#: Samples by quantity, in the unit of the quantity.
SeriesByQuantity: TypeAlias = dict[str, Samples]


class Ceiling(RecordPart, frozen=True, omit_defaults=True):
    """A measured peak, such as the rate of a matrix product: durations of a known work.

    ``size``: of the operation, such as ``512x512x512``.  ``work``: floating-point operations, bytes
    read and written, or pages mapped in one repetition (see ``work_unit``).  ``samples``: durations
    in s, of repetitions in a fresh process; in files of earlier runs ``unit`` is ns.
    ``instrument``: the measuring program.  ``working_set``: memory (B) that is used repeatedly,
    over all arrays and threads.  ``moment``: before or after the cases; ``during`` for a ceiling
    that was measured again, because a case was faster than the ceiling from before the run.
    ``disturbance``: other activity on the machine.
    """

    operation: PeakOperation
    moment: Moment
    dtype: Text
    size: Text
    work: PositiveCount
    work_unit: WorkUnit
    samples: tuple[Duration, ...]
    instrument: Name | None = None
    working_set: PositiveCount | None = None
    disturbance: Reason | None = None
    unit: Literal["s", "ns"] = "s"

    def __post_init__(self) -> None:
        if self.unit == "ns":
            msgspec.structs.force_setattr(self, "samples", in_seconds(self.samples))
            msgspec.structs.force_setattr(self, "unit", "s")


class Round(RecordPart, frozen=True, kw_only=True, omit_defaults=True):
    """The measurement of a case by one process, under one memory policy.

    ``process``: number of the process; every process measures all cases, in an order of its own.
    ``policy``: null if unknown.  ``reason``: null exactly if the status is ok.  ``disturbance``:
    other activity on the machine; if time allows, a further process repeats a disturbed round.
    """

    process: Position
    policy: Policy | None
    status: Status = "ok"
    reason: Reason | None = None
    disturbance: Reason | None = None
    series: SeriesByQuantity

    def samples(self, quantity: str) -> Samples:
        """Return the raw samples of ``quantity``; empty if the round has none."""
        return self.series.get(quantity, ())


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Status of the case with these ``factors``; ``reason`` is null exactly if the status is ok."""

    factors: Factors
    status: Status = "ok"
    reason: Reason | None = None


class Case(Outcome, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One combination of factors with its layers and samples.

    ``series``: samples of the main process, and samples that are equal in every process.
    ``rounds``: samples of separate processes, in the order of measurement.
    """

    series: SeriesByQuantity = {}
    rounds: tuple[Round, ...] = ()
    layers: tuple[Layer, ...] = ()

    @property
    def all_series(self) -> list[SeriesByQuantity]:
        """``series``, then the series of each round."""
        return [self.series, *[round_.series for round_ in self.rounds]]

    def samples(self, quantity: str, policy: Policy = "retained") -> Samples:
        """Return the raw samples of ``quantity``; empty if it was not measured.

        Samples in ``series`` come first; else the samples of ``rounds_under(policy)`` are joined.
        """
        if samples_of_main_process := self.series.get(quantity):
            return samples_of_main_process
        samples: list[Sample] = []
        for round_ in self.rounds_under(policy):
            samples += round_.samples(quantity)
        return tuple(samples)

    def rounds_under(self, policy: Policy) -> list[Round]:
        """Return the rounds with status ok under ``policy``, or else under the only other policy.

        Disturbed rounds are left out if enough others remain: ``FEWEST_PROCESSES``, or one if all
        rounds together are fewer.  Otherwise they are included, and noise widens the intervals.
        """
        ok = [round_ for round_ in self.rounds if round_.status == "ok"]
        rounds = [round_ for round_ in ok if round_.policy == policy]
        if not rounds and len({round_.policy for round_ in ok}) == 1:
            rounds = ok
        undisturbed = [round_ for round_ in rounds if round_.disturbance is None]
        needed = FEWEST_PROCESSES if len(rounds) >= FEWEST_PROCESSES else 1
        return undisturbed if len(undisturbed) >= needed else rounds


def pack_samples(cases: Iterable[Case]) -> None:
    """Replace the samples of ``cases`` by equal samples that take a quarter of the memory."""
    for case in cases:
        for series in case.all_series:
            for quantity, samples in series.items():
                series[quantity] = packed(samples)


def packed(samples: Samples) -> Samples:
    """Return the samples as an array, if they are of one type and not few."""
    if len(samples) < _FEWEST_PACKED:
        return samples
    if int not in map(type, samples):
        return array("d", samples)
    for size in ("i", "q"):
        with suppress(TypeError, OverflowError):  # numbers of two types, or large numbers
            return array(size, cast("Sequence[int]", samples))
    return samples


class Protocol(RecordPart, frozen=True):
    """Plan, repetitions and time budget of a run.

    ``seed``: determines the order of the cases in each process.  ``case_budget_s``: time limit of a
    case in one process.  ``processes``: memory policy → planned number of processes per case.
    ``variables``: memory policy → environment variables that set the policy.  ``budget_s``: time
    limit of a case in all processes; fewer processes measure a case that would exceed it.
    """

    plan: PlanName
    seed: Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
    warmup_calls: Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
    minimum_samples: PositiveCount
    maximum_samples: PositiveCount
    case_budget_s: Positive
    timer: Text
    processes: dict[Policy, Repeats] = {}
    variables: dict[Policy, dict[str, str]] = {}
    budget_s: Positive | None = None


class Attachment(RecordPart, frozen=True):
    """A file that belongs to the record, such as the unchanged output of a counter.

    The file is in a folder with the name of the record.  ``sha256`` is the digest of the file.
    """

    name: FileName
    sha256: Digest
    meaning: Text


class Shard(RecordPart, frozen=True):
    """The part of a sweep that a run measured: shard ``number`` (from 1) of ``of`` shards.

    ``sweep`` is the digest of the cases and counters of the whole sweep, equal in all its shards.
    """

    number: Position
    of: Repeats
    sweep: Digest


class Head(RecordPart, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A record without its samples: identity of the run, and status of its cases.

    ``shard``: null for a run of the whole plan.  ``converted_from``: null, or the digest of the
    older-format file from which this one was converted.
    """

    schema: Annotated[int, msgspec.Meta(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)]
    study: Slug
    started: Timestamp
    finished: Timestamp
    command: tuple[Text, ...]
    code: Code
    protocol: Protocol
    environment: Environment
    shard: Shard | None = None
    converted_from: Digest | None = None
    attachments: tuple[Attachment, ...]
    cases: tuple[Outcome, ...]

    @property
    def minutes(self) -> int:
        """The duration of the run in minutes, rounded up."""
        started = datetime.fromisoformat(self.started)
        finished = datetime.fromisoformat(self.finished)
        return math.ceil((finished - started).total_seconds() / 60)


class Record(Head, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of one run of an experiment on one machine."""

    ceilings: tuple[Ceiling, ...]
    cases: tuple[Case, ...]


#: Version of the format of imported records; files of version 1 were converted to it.
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

    ``instrument``: the measuring program.  ``format``: the importer that read the file.  ``file``,
    ``sha256``: name and digest of the published file.  ``imported``: time of the import.
    ``given``: facts that the user stated on the command line of the import.
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
    """The machine and its software, as far as the published file or the user states them.

    ``model``: model of the device that ran the cases.  ``framework``: measured library with its
    version.  ``clock``: frequency of the device (Hz).  ``power_limit``: power limit of the device
    (W).
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

    ``conditions``: levels of factors that all cases share, such as the precision.  ``rounding``:
    quantity → step to which the published file rounds, a power of ten in the quantity's unit.
    ``missing``: name of a null field, or of a fact without a field → reason.  ``converted_from``:
    null, or the digest of the older-format file from which this one was converted.
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
