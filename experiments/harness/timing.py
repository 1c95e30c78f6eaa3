"""Time single calls.

A sample is ONE call, never a mean of several calls, because reading the clock takes only about
0.1 µs and the shortest case hundreds of µs.  The time excludes freeing the result and resetting
gradients.  Inputs are reused, so that small ones are in a cache.  Python collects no garbage.
"""

import gc
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from experiments.harness.study import Device
from experiments.machine import sensors
from report.core.missing import Missing
from report.core.records.record import Protocol, SeriesByQuantity

#: Time limit of the warm-up as a share of the time for samples.
WARMUP_SHARE: Final = 0.5
#: Shortest time over which energy is counted (s), since its counters advance every few ms at best.
_ENERGY_S: Final = 0.2
#: Number of recent calls that must not be faster than the earlier calls.
_LAST_CALLS: Final = 3
#: A gain in speed by less than this share of the time counts as scatter.
_SMALLEST_GAIN: Final = 0.02


@dataclass(frozen=True)
class Workload:
    """Model and inputs in memory, ready to be called repeatedly.

    ``call`` runs once and returns the objects that must stay alive while memory is read.  ``reset``
    prepares the next call, for example by deleting gradients; it is never timed.
    """

    call: Callable[[], object]
    reset: Callable[[], None] = lambda: None

    def once(self) -> None:
        """Reset, call and drop the result."""
        self.reset()
        self.call()


class CallTime(NamedTuple):
    """Wall time of one call (s), and on a CPU the number of page faults.

    A page that the allocator has returned to the system causes a page fault in the next call.
    """

    wall: float
    page_faults: int | None = None


#: Function that resets a workload and times one call.
Clock: TypeAlias = Callable[[Workload], CallTime]


def cpu_clock(workload: Workload) -> CallTime:
    """Time one call by the processor's clock; the work must be finished when the call returns."""
    workload.reset()
    faults_before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    start = time.perf_counter_ns()
    result = workload.call()
    end = time.perf_counter_ns()
    faults_after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    del result  # after the clock is read, so that freeing is not timed
    return CallTime((end - start) / 1e9, faults_after - faults_before)


def cuda_clock(workload: Workload) -> CallTime:
    """Time one call by the device's clock, from before the first to after the last kernel.

    The time includes gaps between kernels, where the device waits for the host (small batches).
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
    return CallTime(start.elapsed_time(end) / 1e3)


CLOCKS: Final[dict[Device, Clock]] = {"cpu": cpu_clock, "cuda": cuda_clock}


def sample_times(workload: Workload, protocol: Protocol, device: Device) -> SeriesByQuantity:
    """Warm up, then time the samples of a case.

    For a GPU, the result includes the GPU's state before the warm-up, after the warm-up, and after
    the samples.  Where energy is counted, calls go on for at least ``_ENERGY_S``, and the result
    includes the energy per call.
    """
    clock, states = CLOCKS[device], [sensors.read(device)]
    with garbage_collection_off():
        warm_up(lambda: clock(workload).wall, protocol)
        states.append(sensors.read(device))
        energy, start = sensors.read_energy(device), time.monotonic()
        series = repeat_calls(workload, protocol, clock)
        calls = len(series["time"])
        while not isinstance(energy, Missing) and time.monotonic() < start + _ENERGY_S:
            clock(workload)
            calls += 1
        series |= sensors.energy_series(energy, sensors.read_energy(device), calls)
        states.append(sensors.read(device))
    return series | sensors.series_of(states)


def warm_up(
    call: Callable[[], float], protocol: Protocol, now: Callable[[], float] = time.monotonic
) -> int:
    """Call until calls are steady or the time limit is reached; return the number of calls.

    ``call`` returns its duration (s); ``protocol.warmup_calls + 1`` calls are always made.
    """
    durations = [call()]
    deadline = now() + WARMUP_SHARE * protocol.case_budget_s
    while len(durations) <= protocol.warmup_calls or (
        not is_steady(durations[1:]) and now() < deadline
    ):
        durations.append(call())
    return len(durations)


def is_steady(durations: Sequence[float]) -> bool:
    """Return whether no recent call beat the fastest earlier call by ``_SMALLEST_GAIN``."""
    earlier, recent = durations[:-_LAST_CALLS], durations[-_LAST_CALLS:]
    return bool(earlier) and min(recent) >= (1 - _SMALLEST_GAIN) * min(earlier)


def repeat_calls(
    workload: Workload, protocol: Protocol, clock: Clock, now: Callable[[], float] = time.monotonic
) -> SeriesByQuantity:
    """Call until the protocol's time is spent; return ``time`` and on a CPU ``page_faults``."""
    calls: list[CallTime] = []
    deadline = now() + protocol.case_budget_s
    while len(calls) < protocol.minimum_samples or (
        len(calls) < protocol.maximum_samples and now() < deadline
    ):
        calls.append(clock(workload))
    series: SeriesByQuantity = {"time": tuple(call.wall for call in calls)}
    faults = tuple(call.page_faults for call in calls if call.page_faults is not None)
    return series | {"page_faults": faults} if faults else series


@contextmanager
def garbage_collection_off(generation: int = 2) -> Iterator[None]:
    """Collect garbage up to ``generation`` (2 is the oldest); collect none inside the context."""
    gc.collect(generation)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
