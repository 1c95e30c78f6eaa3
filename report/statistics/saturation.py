"""How a rate saturates with the batch size: a curve of two constants, with intervals.

A step of b images that takes a fixed time and a time for each image reaches the rate

    rate(b) = limit · b / (b + half),

which rises to ``limit`` and is half of it at ``b = half``.  Its time is the line
``(half + b) / limit``, so that the curve is fitted as a line of time over batch size, with weights
that assume a constant relative error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from report.missing import Missing
from report.statistics.estimates import CONFIDENCE, Estimate, LinearFit, linear_fit


@dataclass(frozen=True)
class Saturation:
    """``limit`` in images a second, ``half`` in images, from ``n`` points.

    ``half`` is at most 0 where the rate does not rise with the batch size, and missing where the
    points do not bound it.
    """

    limit: Estimate
    half: Estimate | Missing
    line: LinearFit


def saturation_fit(
    batches: Sequence[float], times: Sequence[float], confidence: float = CONFIDENCE
) -> Saturation | Missing:
    """The curve through durations (s) of steps of ``batches`` images; batches may repeat.

    The interval of ``half``, a quotient of two coefficients of the line, is that of Fieller (1954):
    all values that a t-test does not reject, which for a line is the profile of the likelihood.  It
    is missing where these values have no bound.  The result is missing where time does not grow
    clearly with the batch size.  Raises ``StudyError`` as ``linear_fit`` does, for fewer than 3
    points among others.
    """
    line = linear_fit(batches, times, relative=True, confidence=confidence)
    slope = line.slope
    if slope.low <= 0:
        return Missing("these points do not determine it: the interval of the slope holds 0")
    limit = Estimate(1 / slope.value, 1 / slope.high, 1 / slope.low, line.n, confidence)
    return Saturation(limit, _half(line, _weighted_mean(batches, times)), line)


def _weighted_mean(batches: Sequence[float], times: Sequence[float]) -> float:
    weights = [1 / time**2 for time in times]
    return math.fsum(w * b for w, b in zip(weights, batches, strict=True)) / math.fsum(weights)


def _half(line: LinearFit, mean: float) -> Estimate | Missing:
    """Intercept over slope, by Fieller's theorem.

    All h with ``(intercept - h·slope)² <= t²·var(intercept - h·slope)``; the half-widths of the
    intervals are t times the standard errors, and ``cov(intercept, slope) = -mean·var(slope)``.
    """
    intercept, slope = line.intercept.value, line.slope.value
    spread_intercept = ((line.intercept.high - line.intercept.low) / 2) ** 2
    spread_slope = ((line.slope.high - line.slope.low) / 2) ** 2
    square = slope**2 - spread_slope
    if square <= 0:
        return Missing("the points do not bound it")
    middle = intercept * slope + mean * spread_slope
    # Rounding may carry the root of an exact line a little below zero.
    root = math.sqrt(max(middle**2 - square * (intercept**2 - spread_intercept), 0.0))
    value = intercept / slope
    low, high = (middle - root) / square, (middle + root) / square
    return Estimate(value, min(low, value), max(high, value), line.n, line.slope.confidence)
