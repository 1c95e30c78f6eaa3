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
from experiments.harness.study import QUICK  # noqa: E402
from experiments.harness.training_step import (  # noqa: E402
    Batch,
    synthetic,
    trainer,
)
from experiments.networks.blocks import Residual  # noqa: E402
from report.errors import MeasurementError  # noqa: E402

PROTOCOL = msgspec.structs.replace(
    QUICK.protocol, warmup_calls=4, minimum_samples=3, maximum_samples=12, case_budget_s=60.0
)
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


def batch() -> Batch:
    torch.manual_seed(1)
    return synthetic(4, 8, CLASSES)


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
