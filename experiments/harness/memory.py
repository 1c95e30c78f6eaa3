"""Measure the memory of a call (B) by the allocator's events, and on a GPU also by its statistics.

On a CPU torch's profiler reports every allocation and free.  One profile covers building the
workload and one call, each inside a mark, so that the bytes before, after and at the peak come from
the same events.  Blocks that oneDNN or MKL allocate directly from the C library are not included.

On a GPU the first call is a warm-up.  The caching allocator's statistics are read before and after
each later call.  Up to the end of the second call, the allocator also records every request since
it was empty, so that a model of the allocator can be replayed from the record.  In this history
(``c10/cuda/CUDACachingAllocator.cpp``, ``record_trace``), an ``alloc`` has the requested bytes, not
the bytes of the block.  A ``free_completed`` has the bytes of its ``alloc``, at the time when the
block can be used again (with one stream, when the block is freed).  A request of 0 bytes allocates
no block and is not in the history.
"""

import gc
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, count
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeAlias

from experiments.harness.timing import Workload
from experiments.machine.text import read_text
from report.core.errors import MeasurementError
from report.core.records.record import SeriesByQuantity

#: Measurements per case; memory is deterministic, so papers check that all measurements agree.
MEASUREMENTS: Final = 3

#: Mark in a profile around the building of the workload.
BUILD: Final = "ridgepoint.build"
#: Mark in a profile around the call.
CALL: Final = "ridgepoint.call"

#: Statistics of the caching allocator: bytes of blocks, of requests, and of segments.
_STATISTICS: Final = ("allocated", "requested", "reserved")

#: One entry of the caching allocator's history.
HistoryEntry: TypeAlias = Mapping[str, Any]


def measure_cpu(build: Callable[[], Workload], repeats: int = MEASUREMENTS) -> SeriesByQuantity:
    """Measure ``memory_events`` of one call and ``allocated_*`` of each call (B)."""
    profiles = [split_events(_profile(build)) for _ in range(repeats)]
    # Allocated bytes before the first event of each call, and after every event.
    histories = [tuple(accumulate(call, initial=sum(before))) for before, call in profiles]
    return {
        "memory_events": profiles[0][1],
        "allocated_before": tuple(history[0] for history in histories),
        "allocated_after": tuple(history[-1] for history in histories),
        "allocated_peak": tuple(max(history) for history in histories),
    }


def _profile(build: Callable[[], Workload]) -> Sequence[Any]:
    """Build and call once under torch's profiler; return its raw events."""
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        with record_function(BUILD):
            workload = build()
        with record_function(CALL):
            result = workload.call()
    del result
    return run.profiler.kineto_results.events()  # type: ignore[no-any-return]


def split_events(profile: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of the allocator's events during ``BUILD`` and ``CALL`` (B, frees < 0).

    ``profile`` has the profiler's raw events.  The sizes are in order of time.  Raises
    ``MeasurementError`` if marks or events are missing, for example in another version of torch.
    """
    windows, memory = {}, []
    for event in profile:
        name, start = event.name(), event.start_ns()
        if name in (BUILD, CALL):
            windows[name] = start, start + event.duration_ns()
        elif name == "[memory]":
            memory.append((start, event.nbytes()))
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


def measure_cuda(build: Callable[[], Workload], repeats: int = MEASUREMENTS) -> SeriesByQuantity:
    """Measure ``requested_*``, ``allocated_*`` and ``reserved_*`` of each call after a warm-up (B).

    Also returns the requests of the first call after the warm-up (see ``request_series``).
    """
    import torch

    gc.collect()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()  # cuBLAS does not free its workspaces by itself
    torch.cuda.empty_cache()
    began_empty = torch.cuda.memory_stats().get("reserved_bytes.all.current") == 0
    with _record_history() as history:
        workload = build()
        workload.once()  # libraries allocate workspaces, which remain
        entries_before = len(history())
        first, entries = _measure_call(workload, history)
    statistics = [first]
    for _ in range(repeats - 1):
        later, _no_history = _measure_call(workload, history=tuple)
        statistics.append(later)
    series = request_series(entries, entries_before, began_empty)
    for name in first:
        series[name] = tuple(call[name] for call in statistics)
    return series


@contextmanager
def _record_history() -> Iterator[Callable[[], Sequence[HistoryEntry]]]:
    """Record the requests to torch's default allocator; yield a function that returns them."""
    import torch

    if torch.cuda.get_allocator_backend() != "native":
        yield tuple  # other allocators have no history
        return
    memory, device = torch.cuda.memory, torch.cuda.current_device()
    memory._record_memory_history("all", context=None)  # without call stacks
    try:
        start = len(memory._snapshot()["device_traces"][device])
        yield lambda: memory._snapshot()["device_traces"][device][start:]
    finally:
        memory._record_memory_history(None)


def _measure_call(
    workload: Workload, history: Callable[[], Sequence[HistoryEntry]]
) -> tuple[dict[str, int], Sequence[HistoryEntry]]:
    """Return the statistics of one call (B) and the history, read while its result is in memory.

    Statistics that this version of torch lacks are omitted, never 0.
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


def request_series(
    entries: Sequence[HistoryEntry], entries_before: int, began_empty: bool
) -> SeriesByQuantity:
    """Derive the series of requests (B, frees < 0) from the allocator's history.

    ``memory_events`` are the requests of a call, ``memory_events_before`` the requests before the
    call, in the first ``entries_before`` entries.  ``memory_owners`` has the number of the block
    that each request allocates or frees.  The result has only ``memory_events`` if the allocator
    had blocks when the history began, or if an entry frees an unknown block.
    """
    if not entries:
        return {}
    block_numbers = count()
    number_at: dict[int, int] = {}  # address of each allocated block → its number
    events, owners, events_before = list[int](), list[int](), 0
    is_complete = began_empty
    for position, entry in enumerate(entries):
        address, action = entry["addr"], entry["action"]
        if action == "alloc":
            number_at[address] = next(block_numbers)
            owners.append(number_at[address])
            events.append(entry["size"])
        elif action == "free_completed":
            is_complete = is_complete and address in number_at
            owners.append(number_at.pop(address, -1))
            events.append(-entry["size"])
        if position < entries_before:
            events_before = len(events)
    series: SeriesByQuantity = {"memory_events": tuple(events[events_before:])}
    if is_complete:
        series["memory_events_before"] = tuple(events[:events_before])
        series["memory_owners"] = tuple(owners)
    return series


def resident_bytes() -> int | None:
    """Return this process's resident memory including mapped files (B); None if unknown."""
    matched = re.search(r"^VmRSS:\s+(\d+) kB$", read_text(Path("/proc/self/status")), re.MULTILINE)
    return int(matched[1]) * 1024 if matched else None
