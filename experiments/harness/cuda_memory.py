"""Bytes that a call needs on a GPU: the caching allocator's statistics, and its own history.

The statistics are read around a call after a warm-up call.  Around the first such call stands the
history of every request since the allocator held nothing, so that a model of it can be replayed
from the record alone (``evidence.allocator_replay``).  In the history
(``c10/cuda/CUDACachingAllocator.cpp``, ``record_trace``) an
``alloc`` has the bytes that were asked for, not those of the block, and a ``free_completed`` the
same bytes in the moment in which the block can be used again; with one stream that is the moment
of the free.  A request of 0 bytes takes no block and is not there.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from experiments.harness.memory import REPEATS, call_once
from experiments.harness.timing import Build, Workload
from report.records.record import Series

#: Our words for the caching allocator's statistics: in blocks, as asked for, held in segments.
_STATISTICS: Final = {
    "allocated": "allocated_bytes.all",
    "requested": "requested_bytes.all",
    "reserved": "reserved_bytes.all",
}
_UNITS: Final = {"memory_owners": "1"}

#: One entry of the allocator's history.
Entry: TypeAlias = Mapping[str, Any]
#: Gives the history so far; None where this PyTorch keeps none.
History: TypeAlias = Callable[[], tuple[Entry, ...] | None]


def measure(build: Build, repeats: int = REPEATS) -> tuple[Series, ...]:
    """``requested_*``, ``allocated_*`` and ``reserved_*`` of each call after a warm-up (B).

    Before them stand the requests that led there: ``memory_events`` of the first of these calls,
    and, if the allocator could be emptied, ``memory_events_before`` (B) and ``memory_owners``.
    """
    emptied = empty()
    with recording() as history:
        workload = build()
        call_once(workload)  # library workspaces are taken now, and kept
        first = _called(workload, history)
    calls = [first, *(_called(workload, _no_history) for _ in range(repeats - 1))]
    events = series_of(first.entries, first.start, emptied)
    statistics = {name: tuple(c.statistics[name] for c in calls) for name in first.statistics}
    return tuple(
        Series(quantity=name, unit=_UNITS.get(name, "B"), samples=samples)
        for name, samples in {**events, **statistics}.items()
    )


def empty() -> bool:
    """Give back all that the allocator holds; whether nothing is left.

    The workspaces of cuBLAS, which it keeps, are among that.
    """
    import torch

    gc.collect()
    torch.cuda.synchronize()
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()
    torch.cuda.empty_cache()
    return torch.cuda.memory_stats().get("reserved_bytes.all.current") == 0


@contextmanager
def recording() -> Iterator[History]:
    """Record every request of the allocator inside; its other backends keep no history."""
    import torch

    record = getattr(torch.cuda.memory, "_record_memory_history", None)
    if record is None or torch.cuda.get_allocator_backend() != "native":
        yield _no_history
        return
    record("all", context=None)  # no stacks: only what was asked for
    try:
        origin = len(_trace())
        yield lambda: _trace()[origin:]
    finally:
        record(None)


def _trace() -> tuple[Entry, ...]:
    import torch

    traces = torch.cuda.memory._snapshot()["device_traces"]
    return tuple(traces[torch.cuda.current_device()])


@dataclass(frozen=True)
class Call:
    """Statistics of one call (B), how many entries stand before it, and all up to its end."""

    statistics: dict[str, int]
    start: int
    entries: tuple[Entry, ...] | None


def _called(workload: Workload, history: History) -> Call:
    """One call, with its result held until all is read."""
    import torch

    workload.reset()
    torch.cuda.synchronize()
    start = len(history() or ())
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    result = workload.call()
    torch.cuda.synchronize()
    after = torch.cuda.memory_stats()
    entries = history()
    del result
    return Call(statistics_of(before, after), start, entries)


def _no_history() -> None:
    return None


def statistics_of(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """The quantities of a record from the allocator's statistics before and after a call (B).

    A statistic that this torch does not keep is left out, never 0.
    """
    found: dict[str, int] = {}
    for ours, theirs in _STATISTICS.items():
        if f"{theirs}.current" in before and f"{theirs}.peak" in after:
            found[f"{ours}_before"] = before[f"{theirs}.current"]
            found[f"{ours}_after"] = after[f"{theirs}.current"]
            found[f"{ours}_peak"] = after[f"{theirs}.peak"]
    return found


@dataclass(frozen=True)
class Request:
    """A change of what is asked for (B, a free negative); ``owner`` counts allocations from 0.

    ``owner`` is None for the end of an allocation that the history does not show.
    """

    change: int
    owner: int | None


def requests(entries: Sequence[Entry]) -> tuple[Request | None, ...]:
    """The request that each entry is; None for one that is none, such as a new segment."""
    owners: dict[int, int] = {}
    found: list[Request | None] = []
    count = 0
    for entry in entries:
        match entry["action"]:
            case "alloc":
                owners[entry["addr"]] = count
                found.append(Request(entry["size"], count))
                count += 1
            case "free_completed":
                found.append(Request(-entry["size"], owners.pop(entry["addr"], None)))
            case _:
                found.append(None)
    return tuple(found)


def series_of(
    entries: Sequence[Entry] | None, start: int, emptied: bool
) -> dict[str, tuple[int, ...]]:
    """The samples of the series that tell of requests, by quantity.

    ``start`` entries stand before the call; ``emptied`` says that the allocator held nothing before
    the first of them.  Without a history there is none, and where it does not begin with nothing,
    or shows frees of what it does not know, only the call's own events are told.
    """
    if entries is None:
        return {}
    found = requests(entries)
    call = tuple(request.change for request in found[start:] if request)
    known = [request for request in found if request]
    owners = [request.owner for request in known if request.owner is not None]
    if not emptied or len(owners) < len(known):
        return {"memory_events": call}
    return {
        "memory_events": call,
        "memory_events_before": tuple(r.change for r in found[:start] if r),
        "memory_owners": tuple(owners),
    }
