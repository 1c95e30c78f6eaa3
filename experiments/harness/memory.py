"""Bytes that a call needs on a CPU, from the allocator's own events.

On a CPU torch keeps no statistics, but its profiler reports every allocation and every free.  One
profile covers the building of the workload and one call, each inside a mark, so that the bytes
before, after and at the peak all come from the same events: nothing lives that they do not show.
Blocks that oneDNN or MKL take from the C library directly are not among them.  A GPU has an
allocator of its own, see ``experiments.harness.cuda_memory``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from experiments.harness.timing import Build, Workload
from report.errors import MeasurementError
from report.records.record import Series

#: What is deterministic is measured again, so that a paper can check that it is.
REPEATS: Final = 3

#: The marks in a profile.
BUILD: Final = "ridgepoint.build"
CALL: Final = "ridgepoint.call"


@dataclass(frozen=True)
class Allocations:
    """The allocator's events in order (B, frees negative) while building and during the call."""

    build: tuple[int, ...]
    call: tuple[int, ...]

    @property
    def before(self) -> int:
        """Bytes alive when the call begins."""
        return sum(self.build)

    @property
    def after(self) -> int:
        """Bytes alive when the call has returned and its result is held."""
        return self.before + sum(self.call)

    @property
    def peak(self) -> int:
        """Most bytes alive at any moment of the call."""
        return self.before + highest(self.call)


def highest(events: Sequence[int]) -> int:
    """The highest running sum of ``events``, from 0 on (B)."""
    level = top = 0
    for change in events:
        level += change
        top = max(top, level)
    return top


def measure_cpu(build: Build, repeats: int = REPEATS) -> tuple[Series, ...]:
    """``memory_events`` of one call; ``allocated_*`` of each (B)."""
    profiles = [profiled(build) for _ in range(repeats)]
    samples = {
        "memory_events": profiles[0].call,
        "allocated_before": tuple(p.before for p in profiles),
        "allocated_after": tuple(p.after for p in profiles),
        "allocated_peak": tuple(p.peak for p in profiles),
    }
    return tuple(Series(quantity=name, unit="B", samples=found) for name, found in samples.items())


def profiled(build: Build) -> Allocations:
    """Build and call once under torch's profiler.

    Raises ``MeasurementError`` if the profile shows no marks or no events, as it would after a
    change in torch's internals.
    """
    from torch.profiler import ProfilerActivity, profile, record_function

    with (
        native_messages_off(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run,
    ):
        with record_function(BUILD):
            workload = build()
        with record_function(CALL):
            result = workload.call()
    del result
    assert run.profiler is not None
    results = run.profiler.kineto_results
    return cut(results.events() if results is not None else ())


def cut(events: Sequence[Any]) -> Allocations:
    """The ``[memory]`` events inside the two marks, in the order of time.

    ``events`` are the profiler's raw ones (``name()``, ``start_ns()``, ``duration_ns()``,
    ``nbytes()``).  Raises ``MeasurementError`` if something is missing.
    """
    windows = {
        event.name(): (event.start_ns(), event.start_ns() + event.duration_ns())
        for event in events
        if event.name() in (BUILD, CALL)
    }
    memory = sorted(
        ((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"),
        key=lambda pair: pair[0],  # a stable sort keeps events of the same nanosecond in order
    )
    if len(windows) < 2 or not memory:
        raise MeasurementError(
            "The profiler of this PyTorch shows no memory events, so memory cannot be measured; "
            "use a version that ridgepoint was tested with (2.13)."
        )

    def within(mark: str) -> tuple[int, ...]:
        start, end = windows[mark]
        return tuple(size for moment, size in memory if start <= moment <= end)

    return Allocations(within(BUILD), within(CALL))


@contextmanager
def redirected(stream: IO[str], descriptor: int, to: IO[Any]) -> Iterator[None]:
    """Lead what any code prints on ``descriptor``, that of ``stream``, into an open file."""
    stream.flush()
    saved = os.dup(descriptor)
    try:
        os.dup2(to.fileno(), descriptor)
        yield
    finally:
        os.dup2(saved, descriptor)
        os.close(saved)


@contextmanager
def native_messages_off() -> Iterator[None]:
    """Keep lines that torch's C++ profiler prints on standard error away from the user."""
    with Path(os.devnull).open("wb") as sink, redirected(sys.stderr, 2, sink):
        yield


def call_once(workload: Workload) -> None:
    """Call once and drop the result."""
    workload.reset()
    workload.call()


def resident_now() -> int | None:
    """Resident memory of this process (B), mapped files included; None where it cannot be read."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith("VmRSS:")), None)
