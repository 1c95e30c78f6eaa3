"""Medians, rates, lines and proportions: closed forms, scipy and numpy as oracles, errors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import StudyError
from report.statistics.estimates import (
    Estimate,
    bonferroni,
    growth_exponent,
    identical,
    linear_fit,
    median_interval,
    proportion_interval,
    rate_over,
)

BATCHES = [16, 32, 64, 128, 256]


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.975, 0.99])
def test_ranks_are_the_narrowest_symmetric_ones(confidence: float) -> None:
    binomial = pytest.importorskip("scipy.stats").binom
    # Up to 4,096 the ranks are counted, beyond they are inverted.
    for n in (*range(1, 120), 500, 2001, 4096, 4097, 4098, 5000, 100_001):
        found = median_interval(range(1, n + 1), confidence)
        rank = int(found.low)
        assert found.high == n + 1 - rank
        if found.confidence == confidence:
            tail = (1 - confidence) / 2 * (1 + 1e-9)
            assert binomial.cdf(rank - 1, n, 0.5) <= tail < binomial.cdf(rank, n, 0.5)
        else:
            assert rank == 1
            assert found.confidence == 1 - 2 * 0.5**n < confidence


@pytest.mark.parametrize(
    ("samples", "confidence", "expected"),
    [
        ([3], 0.95, Estimate(3, 3, 3, 1, 0.0)),
        ([1, 2, 4], 0.95, Estimate(2, 1, 4, 3, 0.75)),
        ([1, 2, 4, 5, 6], 0.95, Estimate(4, 1, 6, 5, 0.9375)),
        # Just enough: the level is what the extremes reach, to the last digit.
        ([1, 2], 0.5, Estimate(1.5, 1, 2, 2, 0.5)),
        ([1, 2, 3, 4], 0.875, Estimate(2.5, 1, 4, 4, 0.875)),
        ([1, 2, 3, 4], 0.876, Estimate(2.5, 1, 4, 4, 0.875)),
        ([1, 2, 3, 4], 0.375, Estimate(2.5, 2, 3, 4, 0.375)),
        (range(1, 10), 0.95, Estimate(5, 2, 8, 9, 0.95)),
    ],
)
def test_medians_by_hand(samples: Any, confidence: float, expected: Estimate) -> None:
    assert median_interval(samples, confidence) == expected


# -------------------------------------------------------------------------- rates and ratios


def test_an_efficiency_holds_the_worst_of_both_intervals() -> None:
    achieved, ceiling = Estimate(50.0, 40.0, 60.0, 9, 0.975), Estimate(100.0, 80.0, 120.0, 7, 0.975)
    assert rate_over(achieved, ceiling) == Estimate(0.5, 40 / 120, 60 / 80, 7, 0.95)
    few = Estimate(50.0, 1e-9, 60.0, 2, 0.5)
    assert rate_over(few, few).confidence == 0.0
    assert rate_over(few, replace(few, confidence=0.1)).confidence == 0.0
    for one, other in ((replace(few, low=0.0), few), (few, replace(few, low=0.0))):
        with pytest.raises(StudyError, match="positive estimates"):
            rate_over(one, other)


def test_levels_and_samples_that_are_all_the_same() -> None:
    assert [bonferroni(0.95, 2), bonferroni(0.9, 1)] == pytest.approx([0.975, 0.9])
    assert [identical(x) for x in ([8, 8, 8], [8, 8, 9], ["x"], [0, 0])] == [8, None, "x", 0]


# ------------------------------------------------------------------------------------- lines


@pytest.mark.parametrize("relative", [True, False])
def test_exact_points_give_the_exact_line_in_any_order(relative: bool) -> None:
    for batches in (BATCHES, BATCHES[::-1], [64, 16, 256, 32, 128]):
        fit = linear_fit(batches, [73_984 + 147_456 * b for b in batches], relative)
        assert fit.slope == Estimate(147_456, 147_456, 147_456, 5, 0.95)
        assert fit.intercept == Estimate(73_984, 73_984, 73_984, 5, 0.95)


@given(
    st.integers(-(10**9), 10**9),
    st.integers(-(10**9), 10**9),
    st.lists(st.integers(0, 10**6), min_size=3, max_size=20, unique=True),
)
def test_every_exact_line_is_found(slope: int, intercept: int, x: list[int]) -> None:
    fit = linear_fit(x, [intercept + slope * v for v in x], relative=False)
    assert (fit.slope.value, fit.intercept.value) == (slope, intercept)
    assert (fit.slope.low, fit.intercept.high) == (slope, intercept)


@pytest.mark.parametrize("relative", [True, False])
def test_a_fit_solves_the_normal_equations(relative: bool) -> None:
    x, y = [1.0, 2.0, 4.0, 8.0, 16.0], [1.2, 1.9, 4.4, 7.6, 16.9]
    fit = linear_fit(x, y, relative)
    # Dividing each equation by y turns relative errors into equal ones.
    weights = [1 / b if relative else 1.0 for b in y]
    design = np.array([[w, a * w] for a, w in zip(x, weights, strict=True)])
    target = np.array([b * w for b, w in zip(y, weights, strict=True)])
    solution, residual, *_ = np.linalg.lstsq(design, target, rcond=None)
    assert (fit.intercept.value, fit.slope.value) == pytest.approx(tuple(solution))
    # Student's interval with three degrees of freedom, from the scatter and the design.
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * residual[0] / 3)
    for found, error in zip((fit.intercept, fit.slope), errors, strict=True):
        assert found.high - found.value == pytest.approx(3.182446 * error)
        assert found.value - found.low == pytest.approx(3.182446 * error)


def test_growth_in_proportion_has_the_exponent_one() -> None:
    assert growth_exponent(BATCHES, [21_233_664 * b for b in BATCHES]) == Estimate(1, 1, 1, 5, 0.95)
    assert growth_exponent([1, 2, 3], [5.0, 20.0, 45.0]).value == 2.0
    assert growth_exponent([1, 2, 3], [5.0, 5.0, 5.0]).value == 0.0
    x, y = [1, 2, 4, 8], [1.0, 2.1, 3.9, 8.2]
    logarithms = (list(map(math.log, each)) for each in (x, y))
    assert growth_exponent(x, y) == linear_fit(*logarithms, relative=False).slope


# ------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: median_interval([]), "at least 1 value, found 0"),
        (lambda: median_interval([1.0, math.nan]), "finite samples, found nan"),
        (lambda: median_interval([1.0, math.inf]), "finite samples, found inf"),
        (lambda: median_interval([1.0], 1.0), "between 0 and 1, found 1.0"),
        (lambda: median_interval([1.0], 0.0), "between 0 and 1, found 0.0"),
        (lambda: bonferroni(2.0, 2), "between 0 and 1"),
        (lambda: identical([]), "at least 1 value"),
        (lambda: linear_fit([1, 2], [1, 2]), "at least 3 values, found 2"),
        (lambda: linear_fit([1, 2, 3], [1, 2]), "found 3 x and 2 y"),
        (lambda: linear_fit([2, 2, 2], [1, 2, 3]), "two different x, found only 2"),
        (lambda: linear_fit([1, 2, 3], [1, 0, 3]), "positive y, found 0"),
        (lambda: linear_fit([1, 2, 3], [1, math.inf, 3]), "finite samples, found inf"),
        (lambda: linear_fit([1, 2, 3], [1, 2, 3], confidence=95), "found 95"),
        (lambda: growth_exponent([0, 1, 2], [1, 2, 3]), "positive x, found 0"),
        (lambda: growth_exponent([1, 2, 3], [-1, 2, 3]), "positive y, found -1"),
    ],
)
def test_errors_say_what_was_found(call: object, words: str) -> None:
    with pytest.raises(StudyError) as caught:
        call()  # type: ignore[operator]
    assert words in str(caught.value)
    assert str(caught.value).endswith(".")


# -------------------------------------------------------------------------------- proportions


@given(st.integers(1, 5000), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_a_proportion_has_the_interval_of_scipy(n: int, share: float, confidence: float) -> None:
    from scipy.stats import binomtest

    successes = round(share * n)
    found = proportion_interval(successes, n, confidence)
    expected = binomtest(successes, n).proportion_ci(confidence, method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (3, 2), (-1, 2)])
def test_a_proportion_needs_successes_among_trials(successes: int, n: int) -> None:
    with pytest.raises(StudyError, match=f"found {successes} of {n}"):
        proportion_interval(successes, n)
