"""The record: what one run of an experiment on one machine leaves behind.

A record holds raw samples, the geometry of every layer that ran, the environment, the command and
the hash of the measuring code.  It holds no aggregate and no theory: those are computed when a
paper is built.  ``filed`` beside this module reads and writes its text, ``store`` its file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from report.core.records.layers import Layer
from report.core.records.quantities import LARGEST, SHORTEST_S

#: Versions 1 to 3 are those of records that were converted to this one; their digests remain.
SCHEMA_VERSION: Final = 4

#: Longest name in characters that a table can print.
LONGEST_NAME: Final = 200

#: Numbers are bounded so that no computation on them overflows.
Number: TypeAlias = (
    Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
    | Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
)
NonNegative: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=LARGEST)]
Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
Reason: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
#: Processes of a case and shards of a run, which are gone through and named one by one.
Repeats: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Bytes: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Slug: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]*$")]
DeviceKey: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
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
Factor: TypeAlias = bool | Number | Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
Factors: TypeAlias = dict[Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)], Factor]
Sample: TypeAlias = Number
#: A positive duration, in s or in whole ns.
Duration: TypeAlias = Count | Annotated[float, msgspec.Meta(ge=SHORTEST_S, le=LARGEST)]
Status: TypeAlias = Literal["ok", "out_of_memory", "unavailable", "failed"]
Plan: TypeAlias = Literal["full", "quick", "custom"]
#: What the C library does with memory that is freed: gives it back to the system as it does by
#: itself, or keeps it; jemalloc keeps it in place of the C library.
Policy: TypeAlias = Literal[
    "default", "retained", "jemalloc", "mmap_threshold", "trim_threshold", "thresholds", "traced"
]
Moment: TypeAlias = Literal["before", "during", "after"]
#: The passes of one layer that studies measure.
Pass: TypeAlias = Literal["forward", "forward_backward"]
PASSES: Final[tuple[Pass, ...]] = ("forward", "forward_backward")
#: What a ceiling is the best rate of, and the unit of its work.
Peak: TypeAlias = Literal["matrix_product", "convolution", "copy", "read", "triad", "page_mapping"]
WorkUnit: TypeAlias = Literal["FLOP", "B", "1"]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A part of a record: immutable, every field required, no other field allowed.

    Nothing in a record can refer back to what holds it, so that the search for reference cycles
    passes it by; else reading would take longer than in proportion to the number of cases.
    """


class Code(Part, frozen=True):
    """Which program measured."""

    commit: Commit | None
    tree_clean: bool | None
    measuring_code: Digest


class Cpu(Part, frozen=True):
    """The processor of the machine, also of a machine with a GPU."""

    model: Name
    architecture: Text
    cores_available: Count
    governor: Text | None
    vector_extensions: tuple[Text, ...]


class Gpu(Part, frozen=True):
    """The accelerator that ran the cases."""

    model: Name
    memory_bytes: Bytes
    compute_capability: Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+$")]
    driver: Text | None
    cuda: Text
    cudnn: Text | None


class Torch(Part, frozen=True):
    """The framework, with the flags it was built with."""

    version: Name
    build: Text
    cpu_capability: Text


class Precision(Part, frozen=True):
    """The switches that decide which arithmetic a float32 operation uses."""

    default_dtype: Text
    float32_matmul: Text
    cuda_matmul_tf32: bool
    cudnn_tf32: bool
    cudnn_benchmark: bool
    cudnn_deterministic: bool
    deterministic_algorithms: bool


class Cache(Part, frozen=True):
    """One cache as a core sees it; ``cores`` share it."""

    level: Count
    kind: Literal["data", "instruction", "unified"]
    size_bytes: Count
    cores: Count


def capacities(caches: Iterable[Cache], cores: int) -> dict[int, int]:
    """Bytes of data that ``cores`` cores have in the caches of each level, first level first.

    Cores that may share a cache are taken to do so: the system does not say on which cores a
    thread will run, and a cache that is counted once too often would be a roof too wide.
    """
    return {
        cache.level: cache.size_bytes * -(-cores // cache.cores)
        for cache in sorted(caches, key=lambda cache: cache.level)
        if cache.kind != "instruction"
    }


def last_capacity(caches: Iterable[Cache], cores: int) -> int | None:
    """The same of the last level; None where no cache of data is known."""
    found = capacities(caches, cores)
    return found[max(found)] if found else None


class Host(Part, frozen=True):
    """What tells this machine from others of the same name; null where the system does not say.

    ``flags`` are all features that the processor names; ``machine`` is a random number of the
    machine that runs of November 2026 noted.
    """

    vendor: Text | None
    family: int | None
    model: int | None
    stepping: int | None
    microcode: Text | None
    flags: tuple[Text, ...]
    caches: tuple[Cache, ...]
    sockets: Count | None
    virtualisation: Text | None
    c_library: Text | None
    machine: Text | None = None


class Environment(Part, frozen=True, kw_only=True):
    """The machine and the software as they were during the run.

    ``missing`` gives, for every field that is null, the reason why it could not be read.  ``name``
    is what its people call the machine.  ``variables`` are those of the environment that change
    times or results.  ``load_before`` and ``load_after`` are the one-minute load averages that runs
    until November 2026 noted; later ones watch what disturbs each measurement.
    """

    device: Literal["cpu", "cuda"]
    key: DeviceKey
    cpu: Cpu
    gpu: Gpu | None
    threads: Count
    memory_bytes: Bytes
    operating_system: Name
    python: Name
    torch: Torch
    precision: Precision
    load_before: NonNegative | None = None
    load_after: NonNegative | None = None
    missing: dict[str, Text]
    name: Name | None = None
    host: Host | None = None
    variables: dict[str, str] = {}

    @property
    def label(self) -> str:
        """The device in words, as a reader would name it; a GPU without its memory."""
        if self.gpu is not None:
            gpu = re.sub(r"[ -]\d+ ?GB\b.*", "", self.gpu.model) or self.gpu.model
            return self.name or gpu
        family, model = (self.host.family, self.host.model) if self.host else (None, None)
        processor = _with_microarchitecture(self.cpu.model, family, model)
        return f"{self.name or processor}{self.threads_text}"

    @property
    def threads_text(self) -> str:
        """How a label says the number of threads."""
        return f", {self.threads} thread{'s' if self.threads > 1 else ''}"


#: Families and models of AMD's processors by microarchitecture, as Linux tells them
#: (arch/x86/kernel/cpu/amd.c, ``bsp_init_amd``, https://git.kernel.org).
_ZEN: Final[dict[str, tuple[int, tuple[range, ...]]]] = {
    "Zen": (0x17, (range(0x30), range(0x50, 0x60))),
    "Zen 2": (0x17, (range(0x30, 0x50), range(0x60, 0x80), range(0x90, 0x92), range(0xA0, 0xB0))),
    "Zen 3": (0x19, (range(0x10), range(0x20, 0x60))),
    "Zen 4": (0x19, (range(0x10, 0x20), range(0x60, 0xB0))),
    "Zen 5": (0x1A, (range(0x10), range(0x20, 0x30), range(0x40, 0x50), range(0x70, 0x80))),
}


def _with_microarchitecture(name: str, family: int | None, model: int | None) -> str:
    """The ``name`` of a processor, with its microarchitecture where it is a mere brand of AMD.

    A name with a number, such as AMD EPYC 7763, says as much by itself.
    """
    if name.startswith("AMD ") and not any(map(str.isdigit, name)):
        for kind, (theirs, models) in _ZEN.items():
            if family == theirs and any(model in each for each in models):
                return f"{name} ({kind})"
    return name


def in_seconds(samples: Iterable[Sample]) -> tuple[float, ...]:
    """Durations in whole nanoseconds as the nearest floats in s."""
    return tuple([sample / 1e9 for sample in samples])


#: The samples of each quantity, in the one unit that it has.
Measured: TypeAlias = dict[str, tuple[Sample, ...]]


class Ceiling(Part, frozen=True, omit_defaults=True):
    """A measured peak: repeated runs of a known amount of work in a fresh process.

    ``work`` is what one run does, in ``work_unit``: floating-point operations of a product or a
    convolution, bytes moved (read and written), or pages mapped; ``samples`` are durations in s, in
    the files of earlier runs in whole nanoseconds (``unit``).  ``instrument`` is the program that
    did it; ``working_set`` (B) is all that it touches again and again, over its arrays and threads.
    Those ``during`` the run were measured again since a case was faster; ``disturbance`` says in
    words what else the machine did meanwhile.
    """

    operation: Peak
    moment: Moment
    dtype: Text
    size: Text
    work: Count
    work_unit: WorkUnit
    samples: tuple[Duration, ...]
    instrument: Name | None = None
    working_set: Count | None = None
    disturbance: Reason | None = None
    unit: Literal["s", "ns"] = "s"

    def __post_init__(self) -> None:
        if self.unit == "ns":
            msgspec.structs.force_setattr(self, "samples", in_seconds(self.samples))
            msgspec.structs.force_setattr(self, "unit", "s")


class Round(Part, frozen=True, kw_only=True, omit_defaults=True):
    """One process's measurement of a case, under one memory policy; well if nothing else is said.

    Processes are counted from 1; the cases of a process are measured one after the other, in an
    order of its own.  ``policy`` is null where a record does not say it.  ``disturbance`` says in
    words what else the machine did meanwhile; a disturbed round has been measured again by a
    further process, as far as there was time.  ``reason`` is null exactly when it is ok.
    """

    process: Repeats
    policy: Policy | None
    status: Status = "ok"
    reason: Reason | None = None
    disturbance: Reason | None = None
    series: Measured

    def samples(self, quantity: str) -> tuple[Sample, ...]:
        """The raw samples of ``quantity``, empty if the round has none."""
        return self.series.get(quantity, ())


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How one combination of factors ended; ``reason`` is null exactly when it went well."""

    factors: Factors
    status: Status = "ok"
    reason: Reason | None = None


class Case(Outcome, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One combination of factors with the layers that ran, and what was measured of it.

    ``series`` are what is the same in every process, or was measured by the run's own; ``rounds``
    are what processes of their own measured, in the order of measuring.
    """

    series: Measured = {}
    rounds: tuple[Round, ...] = ()
    layers: tuple[Layer, ...] = ()

    @property
    def all_series(self) -> Iterator[Measured]:
        """Its own series by quantity, then those of each of its rounds."""
        yield self.series
        yield from (round_.series for round_ in self.rounds)

    def samples(self, quantity: str, policy: Policy = "retained") -> tuple[Sample, ...]:
        """The raw samples of ``quantity``, process after process, empty if the case has none."""
        return self.series.get(quantity) or tuple(
            sample for round_ in self.rounds_under(policy) for sample in round_.samples(quantity)
        )

    def rounds_under(self, policy: Policy) -> tuple[Round, ...]:
        """The rounds under ``policy`` that went well, or those of the only policy that there is.

        Disturbed ones are left out unless there are no others.
        """
        well = tuple(round_ for round_ in self.rounds if round_.status == "ok")
        found = tuple(round_ for round_ in well if round_.policy == policy)
        if not found and len({round_.policy for round_ in well}) == 1:
            found = well
        return tuple(round_ for round_ in found if round_.disturbance is None) or found


class Protocol(Part, frozen=True):
    """How the run measured: which plan, how many repetitions, within which time budget.

    ``processes`` are those planned for each case under each memory policy, ``variables`` how the
    policy was set.  In each process a case has ``case_budget_s``; ``budget_s`` is the time that all
    of them may take together, so that cases that last long are measured by fewer processes.  The
    order of the cases in each process comes from ``seed``.
    """

    plan: Plan
    seed: Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
    warmup_calls: Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
    minimum_samples: Count
    maximum_samples: Count
    case_budget_s: Positive
    timer: Text
    processes: dict[Policy, Repeats] = {}
    variables: dict[Policy, dict[str, str]] = {}
    budget_s: Positive | None = None


class Attachment(Part, frozen=True):
    """A file that belongs to the record: what a counter printed, as it was printed.

    It lies beside the record, in a folder of its name; ``sha256`` is that of the file itself.
    """

    name: FileName
    sha256: Digest
    meaning: Text


class Shard(Part, frozen=True):
    """The part of a sweep that a run measured: ``number``, from 1, of as many as ``of`` says.

    ``sweep`` is the same in all parts of one sweep: the digest of its cases and of what is counted
    of them.
    """

    number: Repeats
    of: Repeats
    sweep: Digest


class Head(Part, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What tells one run from another, and how its cases ended: a record without its samples.

    ``shard`` is null for a run that measured all that was planned; ``converted_from`` is the digest
    of the file of an older version that was converted to this one, null for any other.
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
    def folder(self) -> str:
        """Where it lies in the data directory."""
        return self.study

    @property
    def moment(self) -> str:
        """The time in the name of its file."""
        return self.started


class Record(Head, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One invocation of one experiment on one machine."""

    ceilings: tuple[Ceiling, ...]
    cases: tuple[Case, ...]
