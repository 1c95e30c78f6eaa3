"""Bytes that a call needs on a CPU: from the allocator's own events, and from the system.

On a CPU torch keeps no statistics, but its profiler reports every allocation and every free.  One
profile covers the building of the workload and one call, each inside a mark, so that the bytes
before, after and at the peak all come from the same events: nothing lives that they do not show.
Blocks that oneDNN or MKL take from the C library directly are not among them; the resident memory
of the process, read from ``/proc``, holds those as well.  It also holds pages that the C library
keeps after a free inside the call: glibc gives a block back at once only if it is larger than a
threshold that grows with what was freed before, up to 32 MiB, so that below it the resident peak
may exceed the allocator's by the blocks that are freed.  A GPU has an allocator of its own, see
``experiments.harness.cuda_memory``.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from experiments.harness.redirection import redirected
from experiments.harness.workload import Build, Workload
from report.errors import MeasurementError
from report.records.record import Series

#: What is deterministic is measured again, so that a paper can check that it is.
REPEATS: Final = 3

#: The marks in a profile.
BUILD: Final = "ridgepoint.build"
CALL: Final = "ridgepoint.call"
_STATUS: Final = Path("/proc/self/status")
_CLEAR_REFS: Final = Path("/proc/self/clear_refs")


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
    """``memory_events`` of one call; ``allocated_*`` and, on Linux, ``resident_*`` of each (B)."""
    found = measure_allocated(build, repeats)
    return found if resident_unavailable() else (*found, *resident(build(), repeats))


def measure_allocated(build: Build, repeats: int = REPEATS) -> tuple[Series, ...]:
    """The same without what is resident, which takes as many calls again."""
    profiles = [profiled(build) for _ in range(repeats)]
    return (
        _bytes("memory_events", profiles[0].call),
        _bytes("allocated_before", [p.before for p in profiles]),
        _bytes("allocated_after", [p.after for p in profiles]),
        _bytes("allocated_peak", [p.peak for p in profiles]),
    )


def _bytes(quantity: str, samples: Sequence[int]) -> Series:
    return Series(quantity=quantity, unit="B", samples=tuple(samples))


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
def native_messages_off() -> Iterator[None]:
    """Keep lines that torch's C++ profiler prints on standard error away from the user."""
    with Path(os.devnull).open("wb") as sink, redirected(sys.stderr, 2, sink):
        yield


def resident_unavailable() -> str | None:
    """Why resident memory cannot be measured here, or None where it can."""
    if not sys.platform.startswith("linux"):
        return "the peak of resident memory can be reset only on Linux"
    try:
        _CLEAR_REFS.write_text("5")
    except OSError as error:
        return f"/proc/self/clear_refs cannot be written ({error.strerror})"
    if _status_bytes("VmHWM") is None:
        return "/proc/self/status shows no VmHWM"
    return None


def resident_now() -> int | None:
    """Resident memory of this process (B), mapped files included; None where it cannot be read."""
    return _status_bytes("VmRSS") if _STATUS.exists() else None


def resident(workload: Workload, repeats: int = REPEATS) -> tuple[Series, ...]:
    """Resident memory of the process before a call and its peak during it, after a warm-up (B).

    What the C library kept from earlier calls is given back first, so that a call cannot hide in
    pages that are there already.
    """
    call_once(workload)
    pairs = [_resident_once(workload) for _ in range(repeats)]
    return (
        _bytes("resident_before", [before for before, _ in pairs]),
        _bytes("resident_peak", [peak for _, peak in pairs]),
    )


def call_once(workload: Workload) -> None:
    """Call once and drop the result."""
    workload.reset()
    workload.call()


def _resident_once(workload: Workload) -> tuple[int, int]:
    workload.reset()
    _trim()
    _CLEAR_REFS.write_text("5")  # sets the high-water mark to the present size
    before = _status_bytes("VmRSS")
    result = workload.call()
    peak = _status_bytes("VmHWM")
    del result
    assert before is not None and peak is not None
    return before, max(before, peak)


def _trim() -> None:
    """Give free pages back to the system (glibc only)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status_bytes(field: str) -> int | None:
    for line in _STATUS.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return None
