"""Sampling: how many, in which state, what is inside the window; and steps of training."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.harness import timing
from experiments.harness.study import FULL, QUICK, Subject
from experiments.harness.timing import Duration, Workload
from report.records.record import Protocol

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from experiments.harness.measure import training  # noqa: E402
from experiments.networks.blocks import Residual  # noqa: E402


def protocol(minimum: int, maximum: int, budget: float) -> Protocol:
    return msgspec.structs.replace(
        FULL,
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
    assert {name: len(samples) for name, samples in series.items()} == {"time": 3, "page_faults": 3}


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


# ------------------------------------------------------------------------------ steps of training


def small() -> Subject:
    """A residual block with ReLUs in place, and what stands around one."""
    torch.manual_seed(0)
    block = Residual(
        [("conv", nn.Conv2d(4, 4, 3, padding=1)), ("bn", nn.BatchNorm2d(4))],
        last=("last", nn.ReLU(inplace=True)),
    )
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(inplace=True),
        block,
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(4, 5),
    )
    return Subject(module, torch.randn(4, 3, 8, 8), "step", "channels_last")


def test_a_step_is_that_of_stochastic_gradient_descent() -> None:
    """Momentum 0.9, weight decay 1e-4, rate 0.1, twice, by hand."""
    module, step = training(small(), "cpu")
    module.eval()  # dropout would draw other random numbers
    weight = module.get_parameter("7.weight")
    before, speed = weight.detach().clone(), torch.zeros_like(weight)
    for _ in range(2):
        step.reset()
        step.call()
        assert weight.grad is not None
        speed = 0.9 * speed + weight.grad + 1e-4 * before
        before = before - 0.1 * speed
        assert torch.allclose(weight, before, atol=1e-6)


def test_the_warm_up_of_slow_steps_ends_early() -> None:
    slow = msgspec.structs.replace(QUICK, warmup_calls=2, case_budget_s=2.0)
    assert timing.warm_up(lambda: 5.0, slow, now=iter((0.0, 5.0)).__next__) == 3
    assert timing.warm_up(lambda: 0.001, slow) == 5  # the first, and four that are steady
