"""Estimates from samples: a value, its interval and the number of samples.

Durations are skewed, so the estimate is the median with a nonparametric interval (Hoefler and
Belli, SC'15, rules 5 to 8).  Intervals that must hold together use Bonferroni's correction.  Only
``next_effect`` and ``least_squares_slope`` assume a distribution.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from report.core.errors import StudyError

#: Confidence level of intervals and claims.
CONFIDENCE: Final = 0.95
#: Smallest number of machines whose scatter is estimated.
FEWEST_MACHINES: Final = 5


@dataclass(frozen=True)
class Estimate:
    """``value`` with the interval ``[low, high]`` at level ``confidence``, from ``n`` samples.

    ``confidence``: the requested level, or a lower level if samples are too few; 1 without samples.
    ``bimodal``: the processes form two groups with the median between the groups.  The interval is
    then the range of the processes' values, and its confidence is 0.  For a ratio that is computed
    within each process, the range keeps its confidence.
    """

    value: float
    low: float
    high: float
    n: int
    confidence: float
    bimodal: bool = False

    @property
    def level(self) -> float | None:
        """The confidence; None without samples: a range of assumptions or of printed digits."""
        return self.confidence if self.n else None


def median_interval(samples: Iterable[float], confidence: float = CONFIDENCE) -> Estimate:
    """Compute the median with its distribution-free interval, in the unit of the samples.

    The interval ends at the order statistics of ranks l and n + 1 - l, where l is the largest rank
    with ``2 · P(B < l) <= 1 - confidence`` for B binomial with n trials and probability 1/2.  For
    independent samples of any distribution the interval covers the median with at least this
    confidence (Hahn and Meeker, Statistical Intervals, 1991, section 5.2).  If the samples are too
    few (fewer than 6 for 95 %), the interval is their range with the confidence ``1 - 2^(1 - n)``.

    Raises ``StudyError`` without samples, or for non-finite samples.
    """
    ordered = sorted(samples)
    if not ordered:
        raise StudyError("A median needs at least 1 value, found 0; measure more.")
    for sample in ordered:
        if not math.isfinite(sample):
            raise StudyError(f"A median needs finite samples, found {sample}.")
    n = len(ordered)
    rank, reached = binomial_rank(n, confidence)
    return Estimate(statistics.median(ordered), ordered[rank - 1], ordered[n - rank], n, reached)


def least_squares_slope(
    x: Sequence[float], y: Sequence[float], confidence: float = CONFIDENCE
) -> Estimate:
    """Compute the slope of the least-squares line of ``y`` against ``x``, with a robust interval.

    The interval assumes a normally distributed slope, and allows for a scatter that depends on
    ``x`` (White, A heteroskedasticity-consistent covariance matrix estimator, Econometrica 48,
    1980).  Raises ``ZeroDivisionError`` if all ``x`` are equal.
    """
    x_mean, y_mean = statistics.fmean(x), statistics.fmean(y)
    offsets = [(a - x_mean, b - y_mean) for a, b in zip(x, y, strict=True)]
    squares = math.fsum(a * a for a, _ in offsets)
    slope = math.fsum(a * b for a, b in offsets) / squares
    error = math.sqrt(math.fsum((a * (b - slope * a)) ** 2 for a, b in offsets)) / squares
    margin = statistics.NormalDist().inv_cdf((1 + confidence) / 2) * error
    return Estimate(slope, slope - margin, slope + margin, len(offsets), confidence)


@lru_cache(maxsize=1024)
def binomial_rank(n: int, confidence: float) -> tuple[int, float]:
    """Return the rank (from 1) of the lower end of a median's interval from ``n`` samples.

    The second result is the interval's confidence: the requested confidence, or the highest
    possible confidence if that is lower.
    """
    tail = (1 - confidence) / 2
    if 0.5**n > tail:
        return 1, 1 - 2 * 0.5**n
    # The 2^n outcomes, which are equally likely, are counted exactly.
    limit = math.floor(Fraction(tail) * 2**n)
    rank = 0
    outcomes_below = 0
    outcomes = 1  # outcomes with B = rank: the binomial coefficient of n and rank
    while outcomes_below + outcomes <= limit:
        outcomes_below += outcomes
        outcomes = outcomes * (n - rank) // (rank + 1)
        rank += 1
    return rank, confidence


def bonferroni(confidence: float, parts: int) -> float:
    """Return the level of each interval that makes ``parts`` intervals hold with ``confidence``."""
    return 1 - (1 - confidence) / parts


def next_effect(
    effects: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Predict the range of an effect on one more machine, from the effect on each machine.

    The logarithms of the effects are assumed to be normally distributed.  The range of the
    logarithm is mean ± t(k − 1) · s · √(1 + 1/k) for k machines with standard deviation s (Hahn and
    Meeker, Statistical Intervals, 1991, section 4.7).  Returns None for fewer than
    ``FEWEST_MACHINES``, or if an effect is not positive.
    """
    machines = len(effects)
    if machines < FEWEST_MACHINES or min(effects) <= 0:
        return None
    logarithms = [math.log(effect) for effect in effects]
    mean = statistics.fmean(logarithms)
    scatter = statistics.stdev(logarithms) * math.sqrt(1 + 1 / machines)
    half_width = student_quantile((1 + confidence) / 2, machines - 1) * scatter
    return math.exp(mean - half_width), math.exp(mean + half_width)


def student_quantile(probability: float, degrees_of_freedom: int) -> float:
    """Return a quantile of Student's t distribution, exact to three digits from 4 degrees on.

    The quantile is a series in powers of 1/``degrees_of_freedom`` that begins with z, the quantile
    of the normal distribution (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5).
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
