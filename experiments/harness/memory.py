"""Bytes that a call needs, from the allocator's own events, and on a GPU from its statistics.

On a CPU torch keeps no statistics, but its profiler reports every allocation and every free.  One
profile covers the building of the workload and one call, each inside a mark, so that the bytes
before, after and at the peak all come from the same events: nothing lives that they do not show.
Blocks that oneDNN or MKL take from the C library directly are not among them.

On a GPU the caching allocator's statistics are read around a call after a warm-up call.  Around the
first such call stands the history of every request since the allocator held nothing, so that a
model of it can be replayed from the record alone (``evidence.allocator_replay``).  In the history
(``c10/cuda/CUDACachingAllocator.cpp``, ``record_trace``) an ``alloc`` has the bytes that were asked
for, not those of the block, and a ``free_completed`` the same bytes in the moment in which it
can be used again; with one stream that is the moment of the free.  A request of 0 bytes takes no
block and is not there.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, count
from operator import itemgetter
from typing import Any, Final, TypeAlias

from experiments.harness.timing import Workload
from report.errors import MeasurementError
from report.records.record import Measured

#: What is deterministic is measured again, so that a paper can check that it is.
REPEATS: Final = 3

#: The marks in a profile.
BUILD: Final = "ridgepoint.build"
CALL: Final = "ridgepoint.call"

#: Statistics of the caching allocator: in blocks, as asked for, held in segments.
_STATISTICS: Final = ("allocated", "requested", "reserved")

#: One entry of the caching allocator's history.
Entry: TypeAlias = Mapping[str, Any]


# -------------------------------------------------------------------------------- on a processor


def measure_cpu(build: Callable[[], Workload], repeats: int = REPEATS) -> Measured:
    """``memory_events`` of one call; ``allocated_*`` of each (B)."""
    profiles = [events_of(_profiled(build)) for _ in range(repeats)]
    levels = [tuple(accumulate(call, initial=sum(before))) for before, call in profiles]
    return {
        "memory_events": profiles[0][1],
        "allocated_before": tuple(level[0] for level in levels),
        "allocated_after": tuple(level[-1] for level in levels),
        "allocated_peak": tuple(map(max, levels)),
    }


def _profiled(build: Callable[[], Workload]) -> Sequence[Any]:
    """The raw events of building and calling once under torch's profiler."""
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        with record_function(BUILD):
            workload = build()
        with record_function(CALL):
            result = workload.call()
    del result
    return run.profiler.kineto_results.events()  # type: ignore[no-any-return,union-attr]


def events_of(profile: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The allocator's events inside each of the two marks, in the order of time (B, frees < 0).

    ``profile`` are the profiler's raw events (``name()``, ``start_ns()``, ``duration_ns()``,
    ``nbytes()``).  Raises ``MeasurementError`` if it shows no marks or no events, as it would after
    a change in torch's internals.
    """
    windows = {
        event.name(): (event.start_ns(), event.start_ns() + event.duration_ns())
        for event in profile
        if event.name() in (BUILD, CALL)
    }
    memory = [(event.start_ns(), event.nbytes()) for event in profile if event.name() == "[memory]"]
    memory.sort(key=itemgetter(0))  # stable: events of the same nanosecond stay in order
    if len(windows) < 2 or not memory:
        raise MeasurementError(
            "The profiler of this PyTorch shows no memory events, so memory cannot be measured; "
            "use a version that ridgepoint was tested with (2.13)."
        )

    def within(mark: str) -> tuple[int, ...]:
        start, end = windows[mark]
        return tuple(size for moment, size in memory if start <= moment <= end)

    return within(BUILD), within(CALL)


# -------------------------------------------------------------------------------------- on a GPU


def measure_cuda(build: Callable[[], Workload], repeats: int = REPEATS) -> Measured:
    """``requested_*``, ``allocated_*`` and ``reserved_*`` of each call after a warm-up (B).

    Before them stand the requests that led there: ``memory_events`` of the first of these calls,
    and, if the allocator could be emptied, ``memory_events_before`` (B) and ``memory_owners``.
    """
    import torch

    gc.collect()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()  # which cuBLAS keeps
    torch.cuda.empty_cache()
    emptied = torch.cuda.memory_stats().get("reserved_bytes.all.current") == 0
    with _recording() as history:
        workload = build()
        workload.once()  # library workspaces are taken now, and kept
        start = len(history())
        first, entries = _called(workload, history)
    calls = [first, *(_called(workload, tuple)[0] for _ in range(repeats - 1))]
    statistics: Measured = {name: tuple(call[name] for call in calls) for name in first}
    return requests_of(entries, start, emptied) | statistics


@contextmanager
def _recording() -> Iterator[Callable[[], Sequence[Entry]]]:
    """Record every request of the allocator inside; its other backends keep no history."""
    import torch

    if torch.cuda.get_allocator_backend() != "native":
        yield lambda: ()
        return
    memory, device = torch.cuda.memory, torch.cuda.current_device()
    memory._record_memory_history("all", context=None)  # no stacks: only what was asked for
    try:
        origin = len(memory._snapshot()["device_traces"][device])
        yield lambda: memory._snapshot()["device_traces"][device][origin:]
    finally:
        memory._record_memory_history(None)


def _called(
    workload: Workload, history: Callable[[], Sequence[Entry]]
) -> tuple[dict[str, int], Sequence[Entry]]:
    """Statistics of one call (B), with its result held until all is read, and the history so far.

    A statistic that this torch does not keep is left out, never 0.
    """
    import torch

    workload.reset()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    result = workload.call()
    torch.cuda.synchronize()
    after = torch.cuda.memory_stats()
    entries = history()
    del result
    statistics = {}
    for name in _STATISTICS:
        if f"{name}_bytes.all.current" in before:
            statistics[f"{name}_before"] = before[f"{name}_bytes.all.current"]
            statistics[f"{name}_after"] = after[f"{name}_bytes.all.current"]
            statistics[f"{name}_peak"] = after[f"{name}_bytes.all.peak"]
    return statistics, entries


def requests_of(entries: Sequence[Entry], start: int, emptied: bool) -> Measured:
    """The samples of the series that tell of requests, by quantity.

    ``start`` entries stand before the call; ``emptied`` says that the allocator held nothing before
    the first of them.  Where it did, or frees show of what is not known, only the call's own events
    are told.
    """
    number, alive = count(), dict[int, int]()
    before, call = list[int](), list[int]()
    owners: list[int | None] = []
    for place, entry in enumerate(entries):
        match entry["action"]:
            case "alloc":
                alive[entry["addr"]] = next(number)
                owners.append(alive[entry["addr"]])
                change = entry["size"]
            case "free_completed":
                owners.append(alive.pop(entry["addr"], None))
                change = -entry["size"]
            case _:  # none of a request, such as a new segment
                continue
        (before if place < start else call).append(change)
    if not entries:
        return {}
    known = tuple(owner for owner in owners if owner is not None)
    if not emptied or len(known) < len(owners):
        return {"memory_events": tuple(call)}
    return {
        "memory_events": tuple(call),
        "memory_events_before": tuple(before),
        "memory_owners": known,
    }
