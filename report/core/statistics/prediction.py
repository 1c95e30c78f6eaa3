"""Prediction interval for the effect on a further machine."""

import math
import statistics
from collections.abc import Sequence
from typing import Final

from report.core.statistics.estimates import CONFIDENCE

#: Fewest machines for an estimate of the scatter between machines.
FEWEST_MACHINES: Final = 5


def next_effect(
    effects: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Predict the effect on one more machine, from one positive ``effect`` per machine.

    The logarithms of effects are assumed to be normally distributed.  The interval is their mean ±
    t(k − 1) · s · √(1 + 1/k) for k machines (Hahn and Meeker, Statistical Intervals, 1991, section
    4.7).  Returns None for fewer than ``FEWEST_MACHINES``, or if an effect is not positive.
    """
    count = len(effects)
    if count < FEWEST_MACHINES or min(effects) <= 0:
        return None
    logarithms = [math.log(effect) for effect in effects]
    middle = statistics.fmean(logarithms)
    scatter = statistics.stdev(logarithms) * math.sqrt(1 + 1 / count)
    half = student_quantile((1 + confidence) / 2, count - 1) * scatter
    return math.exp(middle - half), math.exp(middle + half)


def student_quantile(probability: float, degrees_of_freedom: int) -> float:
    """Return a quantile of Student's t distribution, to three digits from 4 degrees of freedom on.

    The series around the normal quantile has powers of 1/``degrees_of_freedom`` (Abramowitz and
    Stegun, Handbook of Mathematical Functions, 26.7.5).
    """
    z = statistics.NormalDist().inv_cdf(probability)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / degrees_of_freedom**power for power, term in enumerate(terms))
