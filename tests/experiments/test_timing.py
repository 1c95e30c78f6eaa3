"""Sampling: how many, in which state, and what is inside the window; no wall time is asserted."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.harness import timing
from experiments.harness.study import FULL
from experiments.harness.timing import Duration, Workload
from report.records.record import Protocol


def protocol(minimum: int, maximum: int, budget: float) -> Protocol:
    return msgspec.structs.replace(
        FULL.protocol,
        minimum_samples=minimum,
        maximum_samples=maximum,
        case_budget_s=budget,
        warmup_calls=2,
    )


@given(minimum=st.integers(1, 40), extra=st.integers(0, 40), calls=st.integers(1, 200))
def test_samples_stay_between_minimum_and_maximum(minimum: int, extra: int, calls: int) -> None:
    """With a fake clock: a call lasts 1 s and the budget is worth ``calls`` of them."""
    elapsed = 0.0

    def clock(workload: Workload) -> Duration:
        nonlocal elapsed
        elapsed += 1.0
        return Duration(1.0, None)

    idle = Workload(call=lambda: None)
    plan = protocol(minimum, minimum + extra, float(calls))
    durations = timing.repeated(idle, plan, clock, now=lambda: elapsed)
    assert len(durations) == min(max(calls, minimum), minimum + extra)


def test_every_call_starts_from_the_same_state() -> None:
    calls: list[str] = []
    workload = Workload(call=lambda: calls.append("call"), reset=lambda: calls.append("reset"))
    series = timing.warmed_and_repeated(workload, protocol(3, 3, 60.0), "cpu")
    assert calls == ["reset", "call"] * (len(calls) // 2)
    assert len(calls) // 2 >= 1 + 2 + 3
    found = {s.quantity: (s.unit, len(s.samples)) for s in series}
    assert found == {"time": ("s", 3), "page_faults": ("1", 3)}


def test_a_call_that_touches_fresh_pages_faults_once_a_page() -> None:
    import mmap

    pages = 1_000

    def call() -> object:
        fresh = mmap.mmap(-1, pages * mmap.PAGESIZE)
        for page in range(pages):
            fresh[page * mmap.PAGESIZE] = 1
        return fresh

    faults = timing.cpu_clock(Workload(call)).page_faults
    assert faults is not None and pages <= faults < pages + 100


def test_the_result_is_freed_outside_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Result:
        def __del__(self) -> None:
            order.append("freed")

    def tick() -> int:
        order.append("clock")
        return len(order)

    monkeypatch.setattr(time, "perf_counter_ns", tick)
    timing.cpu_clock(Workload(call=Result))
    assert order == ["clock", "clock", "freed"]


def test_cuda_events_enclose_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake torch: the order of events and synchronisations, and milliseconds to seconds."""
    order: list[str] = []

    class Event:
        made = 0

        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing
            self.name = ("start", "end")[Event.made]
            Event.made += 1

        def record(self) -> None:
            order.append(self.name)

        def elapsed_time(self, other: Event) -> float:
            assert (self.name, other.name) == ("start", "end")
            return 2.5

    cuda = SimpleNamespace(Event=Event, synchronize=lambda: order.append("synchronize"))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    workload = Workload(call=lambda: order.append("call"))
    duration = timing.cuda_clock(workload)
    assert duration == Duration(0.0025)
    assert order == ["synchronize", "start", "call", "end", "synchronize"]
