"""A Chrome trace of torch.profiler read back: its memory events and its kernels.

``torch.profiler`` writes one JSON object whose ``traceEvents`` hold, among others, operators
(complete events, ``ph`` X, with a beginning and a duration in µs), ``[memory]`` events (instants
with the bytes that an allocator gave or took back) and, on a GPU, kernels.  A trace of CUPTI's
range profiler (``cuda_profiler_range``) has counters of each kernel in place of its time.  Reading
is strict and pure; what is broken is reported in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from report.core.records import strict
from report.core.records.files import unpacked

_REMEDY: Final = "restore the file with git, or run the experiment again"
#: A time (µs) that no clock shows, a thousandth of what 64 bits hold in ns.
_LATEST: Final = 2**53
_MEMORY: Final = "[memory]"
_OPERATOR: Final = "cpu_op"
#: Marks that a program sets around its own steps, as ``record_function`` does.
_MARK: Final = "user_annotation"
_KERNEL: Final = "kernel"
_DEVICE_WORK: Final = frozenset({_KERNEL, "gpu_memcpy", "gpu_memset"})
#: Counters of one kernel.
_RANGE: Final = "cuda_profiler_range"


class MemoryEvent(NamedTuple):
    """Bytes given (positive) or taken back, on the host or on a device."""

    change: int
    on_host: bool


class Kernel(NamedTuple):
    """Work of a device and its duration (ns); ``transfer`` is true of a copy or a fill."""

    name: str
    duration: int
    transfer: bool = False


class CountedKernel(NamedTuple):
    """Float32 instructions that the threads of one kernel executed, by CUPTI's range profiler."""

    name: str
    additions: int
    multiplications: int
    multiply_adds: int


class TraceDevice(NamedTuple):
    """A GPU as the trace names it; memory in B, None where the trace does not say it."""

    name: str
    memory_bytes: int | None


class Trace(NamedTuple):
    """Memory events and kernels of a trace, each in order of time."""

    memory: tuple[MemoryEvent, ...]
    kernels: tuple[Kernel, ...]
    counted: tuple[CountedKernel, ...] = ()
    devices: tuple[TraceDevice, ...] = ()
    #: Numbers of the GPUs that kernels and transfers ran on.
    used: frozenset[str] = frozenset()


# ----------------------------------------------------------------------------------- reading


#: Instructions that threads executed and that were not masked out (Nsight Compute, metrics).
_EXECUTED: Final = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"


class _Arguments(msgspec.Struct, frozen=True):
    """Arguments of an event that are read.

    Other events may use these names for something else, so that ``_argument_faults`` checks the
    types only of events that are read.
    """

    bytes: Any = msgspec.field(default=None, name="Bytes")
    device: Any = None
    device_type: Any = msgspec.field(default=None, name="Device Type")
    fadd: Any = msgspec.field(default=None, name=_EXECUTED.format("fadd"))
    fmul: Any = msgspec.field(default=None, name=_EXECUTED.format("fmul"))
    ffma: Any = msgspec.field(default=None, name=_EXECUTED.format("ffma"))


class _Event(msgspec.Struct, frozen=True):
    """An event of any kind; ``ts`` and ``dur`` are in µs, exact to the nanosecond."""

    ph: str
    name: str = ""
    cat: str = ""
    ts: Decimal | None = None
    dur: Decimal | None = None
    args: _Arguments = _Arguments()


class _Properties(msgspec.Struct, frozen=True):
    name: str
    memory: int | None = msgspec.field(default=None, name="totalGlobalMem")


class _File(msgspec.Struct, frozen=True):
    events: tuple[_Event, ...] = msgspec.field(name="traceEvents")
    devices: tuple[_Properties, ...] = msgspec.field(default=(), name="deviceProperties")


@lru_cache(maxsize=32)
def read_trace(content: bytes, place: str, remedy: str = _REMEDY) -> Trace:
    """Read a trace from the bytes of its file, gzipped or not; ``place`` names it in messages.

    Cached, since a study reports it in many places.  Messages end with the ``remedy``.
    Raises ``RecordError`` for a file that is cut off or no trace, and for one without operators.
    """
    text = unpacked(content, place, remedy)
    file = strict.parse_json(text, _File, place, remedy)
    strict.refuse_first(_faults(file.events), place, remedy)
    return _trace(file)


def _faults(events: Sequence[_Event]) -> Iterator[str]:
    if not any(_is_operator(event) for event in events):
        yield "traceEvents: expected operators of torch.profiler, found none"
    for index, event in enumerate(events):
        where = f"traceEvents[{index}]"
        timed = _is_operator(event) or _is_kernel(event) or event.cat == _RANGE
        if (timed or event.name == _MEMORY) and event.ts is None:
            yield f"{where}.ts: this field is missing"
        elif any(time and not -_LATEST < time < _LATEST for time in (event.ts, event.dur)):
            yield f"{where}: expected times below {_LATEST:,} µs, found {event.ts} and {event.dur}"
        elif timed and (event.dur is None or event.dur < 0):
            yield f"{where}.dur: expected a duration of at least 0, found {event.dur}"
        yield from (f"{where}.args.{fault}" for fault in _argument_faults(event))


def _argument_faults(event: _Event) -> Iterator[str]:
    """Describe faults of the arguments that are read from this kind of event."""
    args = event.args
    if event.name == _MEMORY:
        if args.bytes is None:
            yield "Bytes: this field is missing"
        elif type(args.bytes) is not int:
            yield f"Bytes: expected a whole number, found {args.bytes!r:.60}"
        if not isinstance(args.device_type, int | None):
            yield f"Device Type: expected a whole number, found {args.device_type!r:.60}"
    if event.cat == _RANGE:
        for name, count in _counts(args).items():
            if type(count) is not int or count < 0:
                yield f"{_EXECUTED.format(name)}: expected a count, found {count!r:.60}"


def _is_operator(event: _Event) -> bool:
    return event.ph == "X" and event.cat in (_OPERATOR, _MARK)


def _is_kernel(event: _Event) -> bool:
    return event.ph == "X" and event.cat in _DEVICE_WORK


def _counts(arguments: _Arguments) -> dict[str, Any]:
    return {"fadd": arguments.fadd, "fmul": arguments.fmul, "ffma": arguments.ffma}


def _trace(file: _File) -> Trace:
    """Read memory events and kernels from checked events, in the order of time."""
    events = sorted(file.events, key=lambda event: event.ts or 0)
    counted = (event for event in events if event.cat == _RANGE)
    return Trace(
        tuple(
            MemoryEvent(event.args.bytes, event.args.device_type in (None, 0))
            for event in events
            if event.name == _MEMORY
        ),
        tuple(
            Kernel(event.name, _nanoseconds(event.dur), event.cat != _KERNEL)
            for event in events
            if _is_kernel(event)
        ),
        tuple(CountedKernel(event.name, *_counts(event.args).values()) for event in counted),
        tuple(TraceDevice(device.name, device.memory) for device in file.devices),
        frozenset(
            str(e.args.device) for e in events if _is_kernel(e) and e.args.device is not None
        ),
    )


def _nanoseconds(microseconds: Decimal | None) -> int:
    return int(((microseconds or Decimal()) * 1000).to_integral_value())
