"""Spread and bimodality: what one narrow distribution is, and what is none."""

from __future__ import annotations

import random

import pytest

from report.errors import StudyError
from report.missing import Missing
from report.statistics.anomaly import UNIFORM, Spread, bimodality, spread

NOISE = random.Random(2)
STEADY = [NOISE.gauss(1, 0.01) for _ in range(200)]
TWO = [*(NOISE.gauss(1, 0.01) for _ in range(100)), *(NOISE.gauss(2, 0.02) for _ in range(100))]


def test_a_normal_distribution_is_not_bimodal_and_not_wide() -> None:
    found = spread(STEADY)
    assert not isinstance(found.bimodality, Missing)
    assert found.bimodality == pytest.approx(1 / 3, abs=0.08)
    assert (found.wide, found.bimodal, found.unsteady) == (False, False, False)


def test_two_centres_are_found() -> None:
    found = spread(TWO)
    assert not isinstance(found.bimodality, Missing)
    assert found.bimodality > 0.9
    assert (found.wide, found.bimodal, found.unsteady) == (True, True, True)


def test_a_uniform_distribution_is_the_border() -> None:
    assert bimodality([i / 1000 for i in range(1001)]) == pytest.approx(UNIFORM, abs=0.01)


def test_two_centres_that_are_close_together_are_no_anomaly() -> None:
    found = spread([1.0] * 50 + [1.01] * 50)
    assert (found.bimodal, found.unsteady) == (True, False)


def test_few_or_equal_samples_have_no_shape() -> None:
    assert isinstance(bimodality([1, 2, 3]), Missing)
    assert bimodality([1.0] * 20) == Missing("all samples are equal")


def test_extremes_and_deviation_alone_can_be_wide() -> None:
    found = Spread(4.1, 1.7, 0.9, 8.6, Missing("not printed"))
    assert (found.wide, found.bimodal, found.unsteady) == (True, False, True)
    assert found.relative == pytest.approx(1.7 / 4.1)


def test_one_sample_has_no_spread() -> None:
    with pytest.raises(StudyError, match="at least 2"):
        spread([1.0])
