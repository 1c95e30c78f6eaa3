"""The roofline: roofs, loads of a training step, operator classes, and the drawing of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from figures.roofline import CacheRoof, Ceiling, Marks, RoofLine, Roofline
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
    training_passes,
    update_load,
)
from report.theory.work import flops, training_macs
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


# ------------------------------------------------------------------------------------- drawing


def drawn(*marks: Marks, roofs: int = 1) -> Roofline:
    lines = (
        RoofLine("Measured", Ceiling(190, 200, 210), Ceiling(28, 30, 32)),
        RoofLine("Data sheet", Ceiling(250, 250, 250), Ceiling(40, 40, 40), "sheet"),
    )
    return Roofline("Intensity", "Rate", lines[:roofs], marks, "A $device")


def test_the_span_holds_all_points_and_ridges() -> None:
    low, high = drawn(Marks("a", (0.5, 80.0), (1.0, 100.0))).span
    assert low < 0.5
    assert high > 80
    assert Roofline("x", "y", ()).span == (0.1, 100.0)


def cached(*bandwidths: float) -> Roofline:
    """A roof with caches of so many times the bandwidth of memory."""
    caches = tuple(
        CacheRoof(f"L{number}", Ceiling(29 * times, 30 * times, 31 * times))
        for number, times in enumerate(bandwidths, 1)
    )
    return replace(drawn(Marks("a", (1.0, 20.0), (10.0, 90.0))), caches=caches)


def test_slopes_are_those_of_memory_and_caches_from_the_slowest_on() -> None:
    assert [slope.label for slope in cached(12, 6, 2).slopes] == ["memory", "L3", "L2", "L1"]
    assert drawn().slopes == ()
    assert replace(cached(3), roofs=()).slopes == ()
