"""Medians, lines and proportions: closed forms, scipy and numpy as oracles, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import StudyError
from report.statistics.estimates import (
    Estimate,
    bonferroni,
    identical,
    line_slope,
    median_interval,
    proportion_interval,
)


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


def test_levels_and_samples_that_are_all_the_same() -> None:
    assert [bonferroni(0.95, 2), bonferroni(0.9, 1)] == pytest.approx([0.975, 0.9])
    assert [identical(x) for x in ([8, 8, 8], [8, 8, 9], ["x"], [0, 0])] == [8, None, "x", 0]


# ------------------------------------------------------------------------------------- lines


@given(
    st.integers(-(10**9), 10**9),
    st.integers(-(10**9), 10**9),
    st.lists(st.integers(0, 10**6), min_size=3, max_size=20, unique=True),
)
def test_every_exact_line_is_found_in_any_order(slope: int, start: int, x: list[int]) -> None:
    found = line_slope(x, [start + slope * v for v in x])
    assert found == Estimate(slope, slope, slope, len(x), 0.95)


def test_a_line_solves_the_normal_equations() -> None:
    x, y = [1.0, 2.0, 4.0, 8.0, 16.0], [1.2, 1.9, 4.4, 7.6, 16.9]
    found = line_slope(x, y)
    design = np.array([[1.0, a] for a in x])
    solution, residual, *_ = np.linalg.lstsq(design, np.array(y), rcond=None)
    # Student's interval with three degrees of freedom, from the scatter and the design.
    error = math.sqrt(np.linalg.inv(design.T @ design)[1, 1] * residual[0] / 3)
    half = 3.182446 * error
    expected = (solution[1], solution[1] - half, solution[1] + half)
    assert (found.value, found.low, found.high) == pytest.approx(expected)
    assert (found.n, found.confidence) == (5, 0.95)
    assert line_slope(x[::-1], y[::-1]) == found


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
        (lambda: proportion_interval(0, 0), "found 0 of 0"),
        (lambda: proportion_interval(3, 2), "found 3 of 2"),
        (lambda: proportion_interval(-1, 2), "found -1 of 2"),
        (lambda: line_slope([1, 2], [1, 2]), "at least 3 values, found 2"),
        (lambda: line_slope([1, 2, 3], [1, 2]), "found 3 x and 2 y"),
        (lambda: line_slope([2, 2, 2], [1, 2, 3]), "two different x, found only 2"),
        (lambda: line_slope([1, 2, 3], [1, math.inf, 3]), "finite samples, found inf"),
        (lambda: line_slope([1, 2, 3], [1, 2, 3], confidence=95), "found 95"),
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
