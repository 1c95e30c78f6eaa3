"""Durations of single calls.

A sample is ONE call, never a mean over several: its overhead is that of the clock (about 0.1 µs, or
0.5 µs with the processor time around it), small beside the shortest case (hundreds of µs).  Freeing
the result and resetting gradients lie outside the timed window.  Inputs are reused, so that small
cases find them in cache.  Python's garbage collector is off while samples are taken.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from experiments.harness.study import Device
from experiments.harness.workload import Workload
from report.records.quantities import QUANTITIES
from report.records.record import Protocol, Series

if TYPE_CHECKING:
    import torch

#: The warm-up ends after this share of a case's time at the latest.
WARMUP_SHARE: Final = 0.5
#: So many calls in a row must not be faster than all before, by this share.
_STEADY: Final = 3
_FASTER: Final = 0.02

TIMERS: dict[Device, str] = {
    "cpu": "time.perf_counter_ns around one call a sample",
    "cuda": "CUDA events around one call a sample, synchronised after it",
}


@dataclass(frozen=True)
class SystemEvents:
    """What the system did for all threads of this process: pages mapped, and threads exchanged.

    ``page_faults`` needed no disk: memory that an allocator gave back to the system faults again,
    page by page, when the next call touches it, which is time that belongs to a call but to none of
    its operations.  A switch is ``voluntary`` when a thread waits (for a lock, or for the other
    threads of an operation), ``involuntary`` when the system gives its core to somebody else.
    """

    page_faults: int
    voluntary_switches: int
    involuntary_switches: int

    def since(self, before: SystemEvents) -> SystemEvents:
        """What happened after ``before``."""
        return SystemEvents(
            self.page_faults - before.page_faults,
            self.voluntary_switches - before.voluntary_switches,
            self.involuntary_switches - before.involuntary_switches,
        )


@dataclass(frozen=True)
class Duration:
    """One call: wall time in s.

    On a CPU also processor time of all threads (s) and what the system did meanwhile; on a GPU how
    long the host then waited for the device (s).
    """

    wall: float
    cpu: float | None = None
    system: SystemEvents | None = None
    wait: float | None = None


Clock: TypeAlias = Callable[[Workload], Duration]


def system_events() -> SystemEvents | None:
    """What the system has done for this process so far; None where it does not tell."""
    try:
        import resource
    except ImportError:  # not a Unix
        return None
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return SystemEvents(usage.ru_minflt, usage.ru_nvcsw, usage.ru_nivcsw)


def cpu_clock(workload: Workload) -> Duration:
    """Time one call that ends when it returns."""
    before = system_events()
    cpu_start = time.process_time_ns()
    start = time.perf_counter_ns()
    result = workload.call()
    end = time.perf_counter_ns()
    cpu_end = time.process_time_ns()
    after = system_events()
    del result  # only now, so that the window does not hold the freeing
    events = after.since(before) if before and after else None
    return Duration((end - start) / 1e9, (cpu_end - cpu_start) / 1e9, events)


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
    returned = time.perf_counter_ns()
    torch.cuda.synchronize()
    waited = time.perf_counter_ns() - returned
    del result
    return Duration(start.elapsed_time(end) / 1e3, wait=waited / 1e9)


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
    """The first call apart, warm-up calls until they no longer get faster, then the samples.

    Returns the series ``first_call_time`` (1 sample), ``warmup_time`` and ``time``; on a CPU also
    ``cpu_time`` (s), ``page_faults``, ``voluntary_switches``, ``involuntary_switches``; on a GPU
    ``wait_time`` (s).
    """
    first = (cpu_clock if device == "cpu" else cuda_wall_clock)(workload)
    clock = cpu_clock if device == "cpu" else cuda_clock
    with collector_off():
        warm = warmed_up(lambda: _again(workload, clock).wall, protocol)
        durations = repeated(workload, protocol, clock)
    return (
        Series(quantity="first_call_time", unit="s", samples=(first.wall,)),
        Series(quantity="warmup_time", unit="s", samples=warm),
        *series_of(durations),
    )


def warmed_up(
    call: Callable[[], float], protocol: Protocol, now: Callable[[], float] = time.monotonic
) -> tuple[float, ...]:
    """Durations (s) of calls until they are steady or half of the case's time is spent.

    Never fewer than the protocol's; ``call`` returns how long it took.
    """
    found: list[float] = []
    deadline = now() + WARMUP_SHARE * protocol.case_budget_s
    while len(found) < protocol.warmup_calls or (not is_steady(found) and now() < deadline):
        found.append(call())
    return tuple(found)


def _again(workload: Workload, clock: Clock) -> Duration:
    workload.reset()
    return clock(workload)


def is_steady(durations: Sequence[float]) -> bool:
    """Whether none of the last calls was faster than all before by more than the clock's noise.

    As long as memory is touched for the first time, code is generated or a clock speeds up, calls
    keep getting faster.
    """
    before, last = durations[:-_STEADY], durations[-_STEADY:]
    return bool(before) and min(last) >= (1 - _FASTER) * min(before)


def series_of(durations: Sequence[Duration]) -> tuple[Series, ...]:
    """One series a quantity that was read; a sample is a call."""
    systems = [d.system for d in durations if d.system is not None]
    samples: dict[str, tuple[float, ...]] = {
        "time": tuple(d.wall for d in durations),
        "cpu_time": tuple(d.cpu for d in durations if d.cpu is not None),
        "wait_time": tuple(d.wait for d in durations if d.wait is not None),
        "page_faults": tuple(s.page_faults for s in systems),
        "voluntary_switches": tuple(s.voluntary_switches for s in systems),
        "involuntary_switches": tuple(s.involuntary_switches for s in systems),
    }
    return tuple(
        Series(quantity=name, unit=QUANTITIES[name].unit, samples=found)
        for name, found in samples.items()
        if found
    )


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
        durations.append(_again(workload, clock))
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


def transfers(source: torch.Tensor, result: torch.Tensor, protocol: Protocol) -> tuple[Series, ...]:
    """How long a call's input takes to a GPU, and its result back, apart from the call.

    ``to_device_time`` of ``source`` and ``from_device_time`` of ``result``, both on the device.

    Both copies go through page-locked memory of the host, which the device reads and writes
    itself; a copy from other memory goes through such memory too, with one more copy on the host.
    One sample is one copy, in s by the device's clock.
    """
    return (
        _copied(source, _locked(source), "to_device_time", protocol),
        _copied(_locked(result), result, "from_device_time", protocol),
    )


def _locked(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in page-locked memory of the host."""
    return tensor.cpu().pin_memory()


def _copied(
    target: torch.Tensor, source: torch.Tensor, quantity: str, protocol: Protocol
) -> Series:
    copy = Workload(lambda: target.copy_(source, non_blocking=True), reset=lambda: None)
    for _ in range(protocol.warmup_calls):
        cuda_clock(copy)
    with collector_off():
        durations = repeated(copy, protocol, cuda_clock)
    return Series(quantity=quantity, unit="s", samples=tuple(d.wall for d in durations))
