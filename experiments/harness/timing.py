"""Durations of single calls.

A sample is ONE call, never a mean over several: its overhead is that of the clock (about 0.1 µs, or
0.5 µs with the processor time around it), small beside the shortest case (hundreds of µs).  Freeing
the result and resetting gradients lie outside the timed window.  Inputs are reused, so that small
cases find them in cache.  Python's garbage collector is off while samples are taken.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from experiments.harness.study import Device
from experiments.harness.workload import Workload
from report.records import Protocol, Series

TIMERS: dict[Device, str] = {
    "cpu": "time.perf_counter_ns around one call a sample",
    "cuda": "CUDA events around one call a sample, synchronised after it",
}


@dataclass(frozen=True)
class Duration:
    """One call: wall time in s; processor time of all threads in s and page faults on a CPU."""

    wall: float
    cpu: float | None = None
    page_faults: int | None = None


Clock: TypeAlias = Callable[[Workload], Duration]


def page_faults() -> int | None:
    """Page faults of this process so far that needed no disk; None where the system hides them.

    Memory that an allocator gave back to the system faults again, page by page, when the next call
    touches it: time that belongs to a call but to none of its operations.
    """
    try:
        import resource
    except ImportError:  # not a Unix
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def cpu_clock(workload: Workload) -> Duration:
    """Time one call that ends when it returns."""
    faults_start = page_faults()
    cpu_start = time.process_time_ns()
    start = time.perf_counter_ns()
    result = workload.call()
    end = time.perf_counter_ns()
    cpu_end = time.process_time_ns()
    faults_end = page_faults()
    del result  # only now, so that the window does not hold the freeing
    faults = None if faults_start is None or faults_end is None else faults_end - faults_start
    return Duration((end - start) / 1e9, (cpu_end - cpu_start) / 1e9, faults)


def cuda_clock(workload: Workload) -> Duration:
    """Time one call on the device's own clock, from before its first to after its last kernel.

    Where the host is slower than the device (small batches) this includes the gaps between kernels.
    Processor time is left out: most of it is waiting.
    """
    import torch

    event: Any = torch.cuda.Event
    start, end = event(enable_timing=True), event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    result = workload.call()
    end.record()
    torch.cuda.synchronize()
    del result
    return Duration(start.elapsed_time(end) / 1e3)


def cuda_wall_clock(workload: Workload) -> Duration:
    """Time one call by the host's clock between two synchronisations: for the first call."""
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    result = workload.call()
    torch.cuda.synchronize()
    end = time.perf_counter_ns()
    del result
    return Duration((end - start) / 1e9)


def first_and_repeated(
    workload: Workload, protocol: Protocol, device: Device
) -> tuple[Series, ...]:
    """The first call apart, warm-up calls, then the samples.

    Returns the series ``first_call_time`` (1 sample), ``time`` and, on a CPU, ``cpu_time`` (s) and
    ``page_faults``.
    """
    first = (cpu_clock if device == "cpu" else cuda_wall_clock)(workload)
    clock = cpu_clock if device == "cpu" else cuda_clock
    for _ in range(protocol.warmup_calls):
        workload.reset()
        clock(workload)
    with collector_off():
        durations = repeated(workload, protocol, clock)
    series = [
        Series(quantity="first_call_time", unit="s", samples=(first.wall,)),
        Series(quantity="time", unit="s", samples=tuple(d.wall for d in durations)),
    ]
    cpu = tuple(d.cpu for d in durations if d.cpu is not None)
    faults = tuple(d.page_faults for d in durations if d.page_faults is not None)
    series.append(Series(quantity="cpu_time", unit="s", samples=cpu))
    series.append(Series(quantity="page_faults", unit="1", samples=faults))
    return tuple(item for item in series if item.samples)


def repeated(
    workload: Workload,
    protocol: Protocol,
    clock: Clock,
    now: Callable[[], float] = time.monotonic,
) -> tuple[Duration, ...]:
    """Samples until the budget is spent, never fewer than the minimum, never over the maximum."""
    durations: list[Duration] = []
    deadline = now() + protocol.case_budget_s
    while len(durations) < protocol.minimum_samples or (
        len(durations) < protocol.maximum_samples and now() < deadline
    ):
        workload.reset()
        durations.append(clock(workload))
    return tuple(durations)


@contextmanager
def collector_off() -> Iterator[None]:
    """Collect garbage now and not again until the end."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
