"""Readers of torch.profiler's files: Chrome traces, and raw timelines of memory.

``torch.profiler`` writes a JSON object.  Among its ``traceEvents`` are operators (complete events,
``ph`` X, with start and duration in µs), ``[memory]`` events (bytes allocated or freed at an
instant) and, on a GPU, kernels.  A trace of CUPTI's range profiler (``cuda_profiler_range``) has
counters of kernels in place of times.

``export_memory_timeline`` with a name that ends in ``.raw.json.gz`` writes a list of events
``[time in ns, action, bytes, category]`` (``torch/profiler/_memory_profiler.py``,
``MemoryProfileTimeline._coalesce_timeline``).  Tensors from before the profile have the time -1.
The action determines the sign of the bytes.  If a tensor changes its category, its bytes are
subtracted from the old category and added to the new category.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from report.core.records import strict
from report.core.records.files import unpacked
from report.core.records.quantities import LARGEST

#: Limit of possible times (µs): about 2⁶³ ns, the largest signed number in 64 bits.
_LATEST_US: Final = 2**53
#: Name of events that allocate or free memory.
_MEMORY: Final = "[memory]"
#: Category of a GPU's kernels.
_KERNEL: Final = "kernel"
#: Categories of the host's work: operators, and annotations by the program (``record_function``).
_HOST_WORK: Final = frozenset({"cpu_op", "user_annotation"})
#: Categories of a GPU's work: kernels, copies and fills.
_GPU_WORK: Final = frozenset({_KERNEL, "gpu_memcpy", "gpu_memset"})
#: Category of events with counters of a kernel.
_COUNTED_RANGE: Final = "cuda_profiler_range"


class TraceDevice(msgspec.Struct, frozen=True):
    """GPU as named in the trace, and the size of its memory (B), None if the size is unknown."""

    name: str
    memory_bytes: int | None = msgspec.field(default=None, name="totalGlobalMem")


class Trace(NamedTuple):
    """GPU events of a trace, in order of time.

    - ``memory_changes``: bytes allocated (positive) or freed (negative);
    - ``kernel_times``: durations of kernels (s), without copies and fills;
    - ``additions``, ``multiplications``, ``multiply_adds``: float32 instructions that the threads
      of a kernel executed, for each kernel that CUPTI's range profiler counted;
    - ``devices``: the GPUs of the machine;
    - ``used_gpus``: numbers of the GPUs that ran kernels, copies or fills.
    """

    memory_changes: tuple[int, ...]
    kernel_times: tuple[float, ...]
    additions: tuple[int, ...]
    multiplications: tuple[int, ...]
    multiply_adds: tuple[int, ...]
    devices: tuple[TraceDevice, ...]
    used_gpus: frozenset[str]


#: Metric of Nsight Compute: thread instructions that were executed and not masked out.
_EXECUTED_METRIC: Final = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"


class _Arguments(msgspec.Struct, frozen=True):
    """Arguments that are read from events; ``fadd``, ``fmul``, ``ffma`` are counts of instructions.

    Events of other kinds may use these names with other types, so that ``_argument_faults`` checks
    types only for events that are read.
    """

    bytes: Any = msgspec.field(default=None, name="Bytes")
    device: Any = None
    device_type: Any = msgspec.field(default=None, name="Device Type")
    fadd: Any = msgspec.field(default=None, name=_EXECUTED_METRIC.format("fadd"))
    fmul: Any = msgspec.field(default=None, name=_EXECUTED_METRIC.format("fmul"))
    ffma: Any = msgspec.field(default=None, name=_EXECUTED_METRIC.format("ffma"))


class _Event(msgspec.Struct, frozen=True):
    """Event of any kind, in the fields of a Chrome trace.

    ``ph``: phase (X is a complete event).  ``cat``: category.  ``ts``, ``dur``: start and duration
    in µs, exact to the nanosecond.
    """

    ph: str
    name: str = ""
    cat: str = ""
    ts: Decimal | None = None
    dur: Decimal | None = None
    args: _Arguments = _Arguments()


class _File(msgspec.Struct, frozen=True):
    """The fields of a trace that this module reads."""

    events: tuple[_Event, ...] = msgspec.field(name="traceEvents")
    devices: tuple[TraceDevice, ...] = msgspec.field(default=(), name="deviceProperties")


def read_trace(content: bytes, place: str, remedy: str) -> Trace:
    """Read a trace from the bytes of a file, gzipped or not.

    Error messages begin with ``place`` and end with ``remedy``.  Raises ``RecordError`` for a
    truncated file, a file that is not a trace, a trace without operators and annotations, and
    missing or impossible fields of an event.
    """
    text = unpacked(content, place, remedy)
    file = strict.parse_json(text, _File, place, remedy)
    strict.refuse_first(_faults(file.events), place, remedy)
    return _trace(file)


def _faults(events: Sequence[_Event]) -> Iterator[str]:
    """Yield faults of the events that are read, as ``field: fault``."""
    if not any(_is_host_work(event) for event in events):
        yield "traceEvents: expected operators or annotations of torch.profiler, found none"
    for index, event in enumerate(events):
        place = f"traceEvents[{index}]"
        has_duration = _is_host_work(event) or _is_gpu_work(event) or event.cat == _COUNTED_RANGE
        if (has_duration or event.name == _MEMORY) and event.ts is None:
            yield f"{place}.ts: this field is missing"
        elif not (_is_possible(event.ts) and _is_possible(event.dur)):
            times = f"found ts {event.ts} and dur {event.dur}"
            yield f"{place}: expected times within ±{_LATEST_US:,} µs, {times}"
        elif has_duration and (event.dur is None or event.dur < 0):
            yield f"{place}.dur: expected a duration of at least 0, found {event.dur}"
        for fault in _argument_faults(event):
            yield f"{place}.args.{fault}"


def _is_possible(time: Decimal | None) -> bool:
    """Tell whether a time (µs) is missing or within the limits."""
    return time is None or -_LATEST_US < time < _LATEST_US


def _argument_faults(event: _Event) -> Iterator[str]:
    """Yield faults of the arguments that are read from an event, as ``argument: fault``."""
    args = event.args
    if event.name == _MEMORY:
        if args.bytes is None:
            yield "Bytes: this field is missing"
        elif type(args.bytes) is not int:
            yield f"Bytes: expected a whole number, found {args.bytes!r:.60}"
        if not isinstance(args.device_type, int | None):
            yield f"Device Type: expected a whole number or null, found {args.device_type!r:.60}"
    if event.cat == _COUNTED_RANGE:
        counts = {"fadd": args.fadd, "fmul": args.fmul, "ffma": args.ffma}
        for name, count in counts.items():
            if type(count) is not int or count < 0:
                yield f"{_EXECUTED_METRIC.format(name)}: expected a count, found {count!r:.60}"


def _is_host_work(event: _Event) -> bool:
    """Tell whether an event is work of the host: an operator or an annotation by the program."""
    return event.ph == "X" and event.cat in _HOST_WORK


def _is_gpu_work(event: _Event) -> bool:
    """Tell whether an event is work of a GPU: a kernel, a copy or a fill."""
    return event.ph == "X" and event.cat in _GPU_WORK


def _trace(file: _File) -> Trace:
    """Read the GPU's events from checked events, in the order of time."""
    events = sorted(file.events, key=lambda event: event.ts or 0)
    memory_changes: list[int] = []
    kernel_times: list[float] = []
    used_gpus = set[str]()
    for event in events:
        if event.name == _MEMORY and event.args.device_type not in (None, 0):  # 0: the host
            memory_changes.append(event.args.bytes)
        if _is_gpu_work(event) and event.args.device is not None:
            used_gpus.add(str(event.args.device))
        if _is_gpu_work(event) and event.cat == _KERNEL:
            kernel_times.append(round(1000 * (event.dur or 0)) / 1e9)
    counted = [event.args for event in events if event.cat == _COUNTED_RANGE]
    return Trace(
        tuple(memory_changes),
        tuple(kernel_times),
        additions=tuple(args.fadd for args in counted),
        multiplications=tuple(args.fmul for args in counted),
        multiply_adds=tuple(args.ffma for args in counted),
        devices=file.devices,
        used_gpus=frozenset(used_gpus),
    )


#: Names of torch's ``Category`` by number; the last name is for tensors without a category.
CATEGORIES: Final = (
    "parameter", "optimizer state", "input", "temporary",
    "activation", "gradient", "autograd detail", "unknown",
)  # fmt: skip
#: Actions on a tensor, by torch's ``_ACTION_TO_INDEX``.  Action 3, a new version of a tensor,
#: changes sizes only if the tensor changes its category.
_EXISTING, _CREATE, _DESTROY = 1, 2, 4
#: Moment (ns) of tensors from before the profile.
_BEFORE_START: Final = -1
_EXPORT_REMEDY: Final = "give a file that export_memory_timeline wrote with a name in .raw.json.gz"


class TimelineEvent(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Element of the file: change of a category (signed bytes) at a moment (ns)."""

    moment: int
    action: int
    change: int
    category: int


def highest_bytes(content: bytes, place: str) -> dict[str, int]:
    """Return the peak bytes of every category from the content of a timeline, gzipped or not.

    Error messages begin with ``place``.  Raises ``RecordError`` for a truncated file, a file that
    is not a timeline, times that decrease, and sizes below 0 or above 2⁶³ − 1 bytes.
    """
    text = unpacked(content, place, _EXPORT_REMEDY)
    events = strict.parse_json(text, tuple[TimelineEvent, ...], place, _EXPORT_REMEDY)
    strict.refuse_first(_timeline_faults(events), place, _EXPORT_REMEDY)
    sizes = [0] * len(CATEGORIES)
    peaks = [0] * len(CATEGORIES)
    for moment, simultaneous in groupby(events, key=attrgetter("moment")):
        for event in simultaneous:
            sizes[event.category] += event.change
        strict.refuse_first(_impossible_sizes(moment, sizes), place, _EXPORT_REMEDY)
        peaks = [max(peak, size) for peak, size in zip(peaks, sizes, strict=True)]
    return dict(zip(CATEGORIES, peaks, strict=True))


def _impossible_sizes(moment: int, sizes: Sequence[int]) -> Iterator[str]:
    """Describe categories whose size (B) at a moment is below 0 or above 2⁶³ − 1."""
    for name, size in zip(CATEGORIES, sizes, strict=True):
        if not 0 <= size <= LARGEST:
            yield f"the moment {moment}: found {size} B of {name}, which is impossible"


def _timeline_faults(events: Sequence[TimelineEvent]) -> Iterator[str]:
    """Yield faults of single events as ``[event][field]: fault``."""
    if all(event.moment == _BEFORE_START for event in events):
        yield "the top level: expected events with a time, found none"
    previous_moment = _BEFORE_START
    for index, event in enumerate(events):
        if not 0 <= event.category < len(CATEGORIES):
            yield f"[{index}][3]: expected a category from 0 to 7, found {event.category}"
        elif not _EXISTING <= event.action <= _DESTROY:
            yield f"[{index}][1]: expected an action from 1 to 4, found {event.action}"
        elif not _fits_action(event):
            yield f"[{index}][2]: found {event.change} B, which action {event.action} cannot do"
        elif event.moment < previous_moment:
            yield f"[{index}][0]: found {event.moment}, which is before the event above it"
        previous_moment = event.moment


def _fits_action(event: TimelineEvent) -> bool:
    """Tell whether the sign of a change fits: creation adds bytes, destruction removes bytes."""
    if event.action in (_EXISTING, _CREATE):
        return event.change >= 0
    return event.action != _DESTROY or event.change <= 0
