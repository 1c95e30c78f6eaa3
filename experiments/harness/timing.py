"""Durations of single calls.

A sample is ONE call, never a mean over several: its overhead is that of the clock (about 0.1 µs),
small beside the shortest case (hundreds of µs).  Freeing the result and resetting gradients lie
outside the timed window.  Inputs are reused, so that small cases find them in cache.  Python's
garbage collector is off while samples are taken.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from experiments.harness.study import Device
from report.records.record import Measured, Protocol

#: The warm-up ends after this share of a case's time at the latest.
WARMUP_SHARE: Final = 0.5
#: So many calls in a row must not be faster than all before, by this share.
_STEADY: Final = 3
_FASTER: Final = 0.02


@dataclass(frozen=True)
class Workload:
    """Model and inputs in memory, ready to be called again and again.

    ``call`` runs once and returns what must stay alive while memory is read.  ``reset`` undoes what
    a call leaves behind (gradients), or gets the next batch; it is never timed.
    """

    call: Callable[[], object]
    reset: Callable[[], None] = lambda: None

    def once(self) -> None:
        """Call once and drop the result."""
        self.reset()
        self.call()


class Duration(NamedTuple):
    """One call: wall time in s, and on a CPU how many pages were mapped meanwhile.

    Memory that an allocator gave back to the system faults again, page by page, when the next call
    touches it.
    """

    wall: float
    page_faults: int | None = None


#: What times a call, after a reset.
Clock: TypeAlias = Callable[[Workload], Duration]


def cpu_clock(workload: Workload) -> Duration:
    """Time one call that ends when it returns."""
    workload.reset()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    start = time.perf_counter_ns()
    result = workload.call()
    end = time.perf_counter_ns()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    del result  # only now, so that the window does not hold the freeing
    return Duration((end - start) / 1e9, after - before)


def cuda_clock(workload: Workload) -> Duration:
    """Time one call on the device's own clock, from before its first to after its last kernel.

    Where the host is slower than the device (small batches) this includes the gaps between kernels.
    """
    import torch

    event: Any = torch.cuda.Event
    start, end = event(enable_timing=True), event(enable_timing=True)
    workload.reset()
    torch.cuda.synchronize()
    start.record()
    result = workload.call()
    end.record()
    torch.cuda.synchronize()
    del result
    return Duration(start.elapsed_time(end) / 1e3)


CLOCKS: Final[dict[Device, Clock]] = {"cpu": cpu_clock, "cuda": cuda_clock}


def warmed_and_repeated(workload: Workload, protocol: Protocol, device: Device) -> Measured:
    """The samples after warm-up calls until they no longer get faster."""
    clock = CLOCKS[device]
    with collector_off():
        warm_up(lambda: clock(workload).wall, protocol)
        return repeated(workload, protocol, clock)


def warm_up(
    call: Callable[[], float], protocol: Protocol, now: Callable[[], float] = time.monotonic
) -> int:
    """Call until calls are steady or half of the case's time is spent; how many it took.

    Never fewer than the protocol's, and the first of a case; ``call`` returns how long it took (s).
    """
    durations = [call()]
    deadline = now() + WARMUP_SHARE * protocol.case_budget_s
    while len(durations) <= protocol.warmup_calls or (
        not is_steady(durations[1:]) and now() < deadline
    ):
        durations.append(call())
    return len(durations)


def is_steady(durations: Sequence[float]) -> bool:
    """Whether none of the last calls was faster than all before by more than the clock's noise.

    As long as memory is touched for the first time, code is generated or a clock speeds up, calls
    keep getting faster.
    """
    before, last = durations[:-_STEADY], durations[-_STEADY:]
    return bool(before) and min(last) >= (1 - _FASTER) * min(before)


def repeated(
    workload: Workload,
    protocol: Protocol,
    clock: Clock,
    now: Callable[[], float] = time.monotonic,
) -> Measured:
    """``time``, and ``page_faults`` where they are read, of calls until the budget is spent.

    Never fewer calls than the minimum, never more than the maximum.
    """
    calls: list[Duration] = []
    deadline = now() + protocol.case_budget_s
    while len(calls) < protocol.minimum_samples or (
        len(calls) < protocol.maximum_samples and now() < deadline
    ):
        calls.append(clock(workload))
    faults = tuple(call.page_faults for call in calls if call.page_faults is not None)
    return {"time": tuple(call.wall for call in calls)} | (
        {"page_faults": faults} if faults else {}
    )


@contextmanager
def collector_off(generation: int = 2) -> Iterator[None]:
    """Collect garbage up to ``generation`` now, the oldest is 2, and not again until the end."""
    gc.collect(generation)
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
