"""The saturation curve: exact points give exact constants, scatter gives intervals that hold."""

from __future__ import annotations

import math
import random

import pytest

from report.errors import StudyError
from report.missing import Missing
from report.statistics.estimates import Estimate
from report.statistics.saturation import Saturation, saturation_fit

BATCHES = (2, 8, 32, 128)


def curve(batches: tuple[float, ...] = BATCHES, limit: float = 500, half: float = 8) -> Saturation:
    found = saturation_fit(batches, [(b + half) / limit for b in batches])
    assert isinstance(found, Saturation)
    return found


def scattered(seed: int, limit: float = 500, half: float = 8) -> Saturation | Missing:
    noise = random.Random(seed)
    batches = [b for b in BATCHES for _ in range(3)]
    return saturation_fit(batches, [(b + half) / limit * noise.gauss(1, 0.02) for b in batches])


def test_points_on_the_curve_give_its_constants() -> None:
    found = curve()
    assert found.limit.value == pytest.approx(500)
    assert isinstance(found.half, Estimate)
    assert found.half.value == pytest.approx(8)
    assert found.half.high - found.half.low < 1e-6


def test_a_rate_that_does_not_rise_has_its_half_at_zero() -> None:
    found = curve(half=0)
    assert isinstance(found.half, Estimate)
    assert found.half.value == pytest.approx(0, abs=1e-9)


def test_time_that_does_not_grow_is_no_saturation() -> None:
    found = saturation_fit((2, 8, 32, 128), (1.0, 0.9, 1.1, 1.0))
    assert found == Missing("these points do not determine it: the interval of the slope holds 0")


def test_intervals_hold_what_made_the_points() -> None:
    """Nineteen of twenty, in the long run: binomial with 200 trials stays above 0.88."""
    fits = [scattered(seed) for seed in range(200)]
    known = [fit for fit in fits if isinstance(fit, Saturation)]
    assert len(known) == 200
    halves = [fit.half for fit in known if isinstance(fit.half, Estimate)]
    held = sum(half.low <= 8 <= half.high for half in halves)
    assert held / len(halves) > 0.88
    assert sum(fit.limit.low <= 500 <= fit.limit.high for fit in known) / 200 > 0.88


def test_the_interval_is_that_of_a_test_on_the_line() -> None:
    """At both ends the t statistic of intercept - h · slope is the quantile."""
    found = scattered(7)
    assert isinstance(found, Saturation)
    half, line = found.half, found.line
    assert isinstance(half, Estimate)
    batches = [b for b in BATCHES for _ in range(3)]
    weights = [1 / line.at(b) ** 2 for b in batches]
    mean = math.fsum(w * b for w, b in zip(weights, batches, strict=True)) / math.fsum(weights)
    va = (line.intercept.high - line.intercept.value) ** 2
    vb = (line.slope.high - line.slope.value) ** 2
    for end in (half.low, half.high):
        distance = (line.intercept.value - end * line.slope.value) ** 2
        spread = va + 2 * end * mean * vb + end**2 * vb
        assert distance == pytest.approx(spread, rel=0.05)


def test_three_points_are_needed() -> None:
    with pytest.raises(StudyError, match="at least 3"):
        saturation_fit((1, 2), (1, 2))
