"""Medians and proportions: closed forms, scipy and numpy as oracles, errors."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import StudyError
from report.statistics.estimates import (
    Estimate,
    bonferroni,
    identical,
    median_interval,
    proportion_interval,
)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.975, 0.99])
def test_ranks_are_the_narrowest_symmetric_ones(confidence: float) -> None:
    binomial = pytest.importorskip("scipy.stats").binom
    for n in (*range(1, 120), 500, 2001, 5000):
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
