"""Durations of training steps, one after the other, each whole and by its phases.

Every step is timed by itself, as ``experiments.harness.timing`` times a call: what comes between
two steps (the next batch, a reading of sensors) is outside of it.  No step is left out of the
record: the first, those of the warm-up and those measured stand in series of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import torch

from experiments.harness import timing
from experiments.harness.sensors import Log
from experiments.harness.study import Device
from experiments.harness.timing import Duration
from experiments.harness.training_step import Batch, Mark
from experiments.harness.workload import Workload
from report.records.record import Protocol, Series

#: Steps before anything but time is looked at.
LEAST_WARMUP: Final = 2
#: Steps from one reading of the sensors to the next.
SENSOR_STRIDE: Final = 10

#: One step on a batch, with its phases marked; returns the loss.
Step: TypeAlias = Callable[[Batch, Mark], torch.Tensor]
#: The next batch, on the device, when this returns.
Feed: TypeAlias = Callable[[], Batch]


class PhaseClock:
    """How long each phase of a step takes, by the host's clock or by events of the device."""

    def __init__(self, device: Device) -> None:
        """Begin without any phase."""
        self._stamp = _event if device == "cuda" else time.perf_counter_ns
        self._open: dict[str, list[tuple[Any, Any]]] = {}

    @contextmanager
    def mark(self, phase: str) -> Iterator[None]:
        """Stand around ``phase``."""
        begin = self._stamp()
        yield
        self._open.setdefault(phase, []).append((begin, self._stamp()))

    def seconds(self) -> dict[str, tuple[float, ...]]:
        """The durations of each phase in order; the device must have finished."""
        return {
            phase: tuple(_between(begin, end) for begin, end in pairs)
            for phase, pairs in self._open.items()
        }


def _event() -> Any:
    made: Any = torch.cuda.Event
    event = made(enable_timing=True)
    event.record()
    return event


def _between(begin: Any, end: Any) -> float:
    """Seconds from one stamp to another."""
    if isinstance(begin, int):
        return float(end - begin) / 1e9
    return float(begin.elapsed_time(end)) / 1e3


@dataclass
class Run:
    """Steps made so far: the loss of each, and the wait for its batch (s)."""

    step: Step
    feed: Feed
    device: Device
    losses: list[torch.Tensor] = field(default_factory=list)

    def timed(self, clock: timing.Clock, mark: Mark) -> tuple[Duration, float]:
        """One step: its duration, and how long its batch was waited for (s)."""
        began = time.perf_counter_ns()
        batch = self.feed()
        waited = (time.perf_counter_ns() - began) / 1e9
        # The loss is copied only then: a graph writes every step's into the same place.
        call = Workload(lambda: self.losses.append(self.step(batch, mark)), reset=lambda: None)
        duration = clock(call)
        self.losses[-1] = self.losses[-1].clone()
        return duration, waited


def measured(
    step: Step, feed: Feed, protocol: Protocol, device: Device, log: Log, *, loads: bool
) -> tuple[Series, ...]:
    """The first step, the warm-up and the measured steps of one process.

    ``loads`` says that ``feed`` has something to wait for.  Series: ``first_call_time``,
    ``warmup_time``, those of ``timing.series_of``, ``forward_time``, ``backward_time`` and
    ``update_time`` where the step marks them, ``step_loss``, ``loader_wait_time``, sensors.
    """
    run, unwatched = Run(step, feed, device), PhaseClock(device).mark
    whole = timing.cpu_clock if device == "cpu" else timing.cuda_wall_clock
    clock = timing.cpu_clock if device == "cpu" else timing.cuda_clock
    first, _ = run.timed(whole, unwatched)
    warmup = timing.warmed_up(lambda: run.timed(clock, unwatched)[0].wall, protocol)
    phases, waits = PhaseClock(device), list[float]()
    with timing.collector_off():
        durations = _repeated(run, clock, phases, waits, protocol, log)
    return (
        _seconds("first_call_time", (first.wall,)),
        _seconds("warmup_time", warmup),
        *timing.series_of(durations),
        *(_seconds(f"{name}_time", found) for name, found in phases.seconds().items()),
        Series(quantity="step_loss", unit="1", samples=tuple(x.item() for x in run.losses)),
        *((_seconds("loader_wait_time", waits),) if loads else ()),
        *log.series(),
    )


def _seconds(quantity: str, samples: Sequence[float]) -> Series:
    return Series(quantity=quantity, unit="s", samples=tuple(samples))


def _repeated(
    run: Run,
    clock: timing.Clock,
    phases: PhaseClock,
    waits: list[float],
    protocol: Protocol,
    log: Log,
) -> tuple[Duration, ...]:
    """Samples as ``timing.repeated`` takes them, with sensors read at the ends and in between."""
    durations: list[Duration] = []
    log.read()
    deadline = time.monotonic() + protocol.case_budget_s
    while len(durations) < protocol.minimum_samples or (
        len(durations) < protocol.maximum_samples and time.monotonic() < deadline
    ):
        duration, waited = run.timed(clock, phases.mark)
        durations.append(duration)
        waits.append(waited)
        if len(durations) % SENSOR_STRIDE == 0:
            log.read()
    if len(durations) % SENSOR_STRIDE:
        log.read()
    return tuple(durations)
