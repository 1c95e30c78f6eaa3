"""The roofline: roofs, loads of a training step, operator classes, and the drawing of it."""

from __future__ import annotations

import pytest

from report.statistics.estimates import Estimate
from report.theory.memory import compulsory_traffic
from report.theory.roofline import (
    DEPTHWISE,
    Load,
    Roof,
    load,
    operator_class,
    sheet_roof,
    step_load,
    total,
    training_loads,
    update_load,
)
from report.theory.work import flops, training_macs, training_passes
from tests.networks import Chain, convolution
from tests.training import layers_of

NETWORKS = ("ResNet-18", "ResNet-50", "MobileNetV2")
SHEET = sheet_roof(8.1e12, 320e9)


def estimate(value: float, share: float = 0.02) -> Estimate:
    return Estimate(value, value * (1 - share), value * (1 + share), 20, 0.975)


# -------------------------------------------------------------------------------------- roofs


def test_the_ridge_is_peak_over_bandwidth() -> None:
    assert SHEET.ridge.value == pytest.approx(25.3125)
    assert SHEET.ridge.low == SHEET.ridge.high


def test_below_the_ridge_traffic_is_the_limit() -> None:
    assert (SHEET.limit(10), SHEET.limit(100)) == ("traffic", "arithmetic")


def test_a_measured_ridge_has_an_interval() -> None:
    ridge = Roof(estimate(2e11), estimate(3e10)).ridge
    assert ridge.low < 2e11 / 3e10 < ridge.high
    assert ridge.confidence == pytest.approx(0.95)


# -------------------------------------------------------------------------------------- loads


def test_a_layer_without_work_has_intensity_zero() -> None:
    (layer,) = Chain(1, 8).act().layers
    assert load(layer).intensity == 0
    assert Load().intensity == 0


def test_the_first_layer_with_parameters_needs_no_input_gradient() -> None:
    layers = Chain(2, 3, 8, 8).conv(4, 3, 1, 1).act().flatten().linear(2).layers
    passes = training_passes(layers)
    assert passes[0] == ("forward", "weight_gradient")
    assert all(p[-1] == "input_gradient" for p in passes[1:])


@pytest.mark.parametrize("network", NETWORKS)
def test_the_work_of_a_step_is_that_of_the_theory_of_work(network: str) -> None:
    layers = layers_of(network, 4)
    assert total(training_loads(layers)).flops == flops(training_macs(layers))


def test_exact_training_work_of_measurement() -> None:
    assert step_load(layers_of("ResNet-50")).flops == pytest.approx(24.299e9, rel=1e-4)
    assert step_load(layers_of("MobileNetV2")).flops == pytest.approx(1.783e9, rel=1e-3)


def test_traffic_layer_by_layer_is_compulsory_traffic_and_the_update() -> None:
    layers = Chain(2, 5).linear(10).layers
    moved = sum(compulsory_traffic(layers[0], p) for p in ("forward", "weight_gradient"))
    assert step_load(layers).bytes == moved + 5 * 4 * 60
    assert update_load(layers) == Load(0, 5 * 4 * 60)


def test_larger_batches_raise_intensity() -> None:
    small, large = layers_of("ResNet-18", 2), layers_of("ResNet-18", 64)
    assert step_load(small).intensity < step_load(large).intensity


# ------------------------------------------------------------------------------------ classes


def test_convolutions_are_told_apart_by_kernel_and_groups() -> None:
    made = [
        convolution((1, 8, 8, 8), 8, (3, 3), padding=(1, 1), groups=groups) for groups in (1, 2, 8)
    ]
    assert [operator_class(layer) for layer in made] == [
        "3 × 3 convolution",
        "3 × 3 grouped convolution",
        DEPTHWISE,
    ]
