"""Paired differences: closed forms, a published example, and refusals."""

from __future__ import annotations

import math

import pytest

from report.errors import StudyError
from report.statistics.paired_differences import share_difference


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


def test_a_share_is_of_zeros_and_ones() -> None:
    with pytest.raises(StudyError, match="zeros and ones"):
        share_difference([1, 2], [0, 1])
