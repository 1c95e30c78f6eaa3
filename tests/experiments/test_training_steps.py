"""Steps of training, their layers, their process and what the device tells of itself."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import msgspec
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from experiments.harness import layer_times, sensors, steps, timing  # noqa: E402
from experiments.harness.profiling import trace_of_call  # noqa: E402
from experiments.harness.sensors import Log  # noqa: E402
from experiments.harness.study import QUICK, Session  # noqa: E402
from experiments.harness.training_step import (  # noqa: E402
    Batch,
    marked,
    synthetic,
    trainer,
)
from experiments.harness.workload import Workload  # noqa: E402
from experiments.networks.blocks import Residual  # noqa: E402
from report.errors import MeasurementError  # noqa: E402
from report.instruments.trace import read_trace  # noqa: E402
from report.records.record import Series  # noqa: E402

FOLDER = Path(__file__).parent
PROTOCOL = msgspec.structs.replace(
    QUICK.protocol, warmup_calls=4, minimum_samples=3, maximum_samples=12, case_budget_s=60.0
)
SESSION = Session("cpu", PROTOCOL)
CLASSES = 5


def small() -> nn.Sequential:
    """A residual block with ReLUs in place, and what stands around one."""
    torch.manual_seed(0)
    block = Residual(
        [("conv", nn.Conv2d(4, 4, 3, padding=1)), ("bn", nn.BatchNorm2d(4))],
        last=nn.ReLU(inplace=True),
    )
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(inplace=True),
        block,
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(4, CLASSES),
    )


NAMES = ("0", "1", "2.conv", "2.bn", "2.add", "2.last", "3", "4", "5", "6", "7")


def batch() -> Batch:
    torch.manual_seed(1)
    return synthetic(4, 8, CLASSES)


def samples(found: tuple[Series, ...]) -> dict[str, tuple[float, ...]]:
    return {series.quantity: series.samples for series in found}


# ------------------------------------------------------------------------------------- one step


def test_a_step_is_that_of_stochastic_gradient_descent() -> None:
    """Momentum 0.9, weight decay 1e-4, rate 0.1, twice, by hand."""
    module, images = small().eval(), batch()
    made = trainer(module, "cpu")
    made.module.eval()  # dropout would draw other random numbers
    weight = module[7].weight
    before, speed = weight.detach().clone(), torch.zeros_like(weight)
    for _ in range(2):
        made.step(images)
        assert weight.grad is not None
        speed = 0.9 * speed + weight.grad + 1e-4 * before
        before = before - 0.1 * speed
        assert torch.allclose(weight, before, atol=1e-6)


def test_reduced_precision_leaves_weights_and_gradients_alone() -> None:
    module = small()
    seen: list[torch.dtype] = []
    module[0].register_forward_hook(lambda m, i, output: seen.append(output.dtype))
    trainer(module, "cpu", "bfloat16", "channels_last").step(batch())
    assert seen == [torch.bfloat16]
    for parameter in module.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is not None and parameter.grad.dtype == torch.float32


# ------------------------------------------------------------------------------------ durations


def run(log: Log | None = None, loads: bool = False) -> dict[str, tuple[float, ...]]:
    made, images = trainer(small(), "cpu"), batch()
    found = steps.measured(made.step, lambda: images, PROTOCOL, "cpu", log or Log({}), loads=loads)
    return samples(found)


def test_every_step_is_kept_with_its_phases() -> None:
    found = run()
    assert len(found["first_call_time"]) == 1
    assert len(found["warmup_time"]) >= PROTOCOL.warmup_calls
    assert len(found["time"]) == 12
    assert len(found["step_loss"]) == 1 + len(found["warmup_time"]) + 12
    assert all(0 < loss < 10 for loss in found["step_loss"])
    names = ("forward_time", "backward_time", "update_time")
    for whole, *parts in zip(found["time"], *(found[name] for name in names), strict=True):
        assert all(part > 0 for part in parts)
        assert sum(parts) <= whole
    assert "loader_wait_time" not in found
    assert len(run(loads=True)["loader_wait_time"]) == 12


def test_the_warm_up_of_slow_steps_ends_early() -> None:
    slow = msgspec.structs.replace(PROTOCOL, warmup_calls=2, case_budget_s=2.0)
    assert timing.warmed_up(lambda: 5.0, slow, now=iter((0.0, 5.0)).__next__) == (5.0, 5.0)
    assert timing.warmed_up(lambda: 0.001, slow) == (0.001,) * 4  # steady


# --------------------------------------------------------------------------------------- layers


def test_a_layer_that_was_not_seen_is_no_zero() -> None:
    clock = steps.PhaseClock("cpu")
    with clock.mark("forward a"):
        pass
    with pytest.raises(MeasurementError, match="Layer b: 0 of 1 steps were seen"):
        layer_times.series_of(clock, ("a", "b"))


def test_a_trace_shows_phases_and_layers() -> None:
    def build() -> Workload:
        made, images = trainer(small(), "cpu"), batch()

        def call() -> object:
            with layer_times.watched(made.module, layer_times.profile_mark):
                return made.step(images, marked)

        return Workload(call, lambda: None)

    trace = read_trace(trace_of_call(build, "cpu"), "trace")
    marks = {operator.name: operator for operator in trace.operators if operator.mark}
    for way, phase in (("forward", "ridgepoint.forward"), ("backward", "ridgepoint.backward")):
        for name in NAMES:
            mark = marks[f"{way} {name}"]
            assert marks[phase].start <= mark.start <= mark.end <= marks[phase].end
    assert marks["ridgepoint.update"].end <= marks["ridgepoint.call"].end
    inside = {
        trace.operators[place].name
        for operator in trace.operators
        if operator.name == "aten::convolution_backward"
        for place in trace.ancestors(operator)
    }
    assert {"backward 0", "backward 2.conv"} <= inside


# -------------------------------------------------------------------------------------- sensors


def test_sensors_of_a_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    entry = types.SimpleNamespace(current=61.5)
    cooler = types.SimpleNamespace(current=40.0)
    told = {"coretemp": [cooler, entry], "nvme": [types.SimpleNamespace(current=99.0)]}
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: told, raising=False)
    for core, clock in ((0, 2_000_000), (1, 3_000_000)):
        (tmp_path / f"cpu{core}/cpufreq").mkdir(parents=True)
        (tmp_path / f"cpu{core}/cpufreq/scaling_cur_freq").write_text(f"{clock}\n")
    monkeypatch.setattr(sensors, "_CPU", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    assert sensors.read("temperature", "cpu") == 61.5
    assert sensors.read("clock", "cpu") == 2.5e9
    assert set(sensors.available("cpu")) == {"device_temperature", "device_clock"}


def test_sensors_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "temperature", lambda: 55)
    monkeypatch.setattr(torch.cuda, "clock_rate", lambda: 1980)
    monkeypatch.setattr(torch.cuda, "power_draw", lambda: 650_000)
    monkeypatch.setattr(torch.cuda, "_get_pynvml_handler", lambda: "handle")
    library = types.SimpleNamespace(nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: 4)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    found = {name: sensors.read(name, "cuda") for name in sensors.SENSORS}
    assert found == {"temperature": 55, "clock": 1.98e9, "power": 650, "throttle_reasons": 4}
    assert sensors.as_series("throttle_reasons", (4,)).samples == (4,)
