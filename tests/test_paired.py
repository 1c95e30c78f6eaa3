"""Paired differences: closed forms, a published example, and refusals."""

from __future__ import annotations

import math

import pytest

from report.errors import StudyError
from report.statistics.paired_differences import mean_difference, share_difference


def test_the_mean_of_differences() -> None:
    found = mean_difference([3.0, 5.0, 7.0], [1.0, 2.0, 3.0])
    assert found.value == 3
    # t(0.975, 2) = 4.302653, standard error 1/√3
    assert found.high - found.value == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert found.value - found.low == pytest.approx(found.high - found.value)
    assert found.n == 3


def test_equal_scores_differ_by_nothing() -> None:
    found = mean_difference([0.1, 0.2], [0.1, 0.2])
    assert (found.low, found.value, found.high) == (0, 0, 0)


def test_a_share_by_hand() -> None:
    new = [1] * 8 + [0] * 2
    old = [1] * 5 + [0] * 5
    found = share_difference(new, old)
    assert found.value == pytest.approx(0.3)
    middle = 3 / 12
    half = 1.959964 * math.sqrt(4 - 9 / 12) / 12
    assert found.low == pytest.approx(middle - half, rel=1e-6)
    assert found.high == pytest.approx(middle + half, rel=1e-6)


def test_no_pair_that_differs_has_a_width() -> None:
    found = share_difference([1, 0, 1], [1, 0, 1])
    assert found.value == 0
    assert found.low < 0 < found.high
    assert found.low == -found.high


@pytest.mark.parametrize(("new", "old"), [([1], [1]), ([1, 0], [1]), ([], [])])
def test_pairs_come_in_pairs(new: list[int], old: list[int]) -> None:
    with pytest.raises(StudyError, match="Paired items come in equal numbers"):
        share_difference(new, old)
    with pytest.raises(StudyError, match="Paired items come in equal numbers"):
        mean_difference(new, old)


def test_a_share_is_of_zeros_and_ones() -> None:
    with pytest.raises(StudyError, match="zeros and ones"):
        share_difference([1, 2], [0, 1])
