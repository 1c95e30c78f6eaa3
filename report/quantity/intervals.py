"""Intervals of medians from the calls of one process.

Calls of one process differ less than calls of several processes.  Intervals are thus computed from
processes or runs (see ``evaluation``).  The interval of a single process is computed from its
calls, widened for autocorrelation, and holds for this process only.
"""

import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from report.core.statistics.estimates import Estimate, binomial_rank, median_interval

#: Smallest number of samples whose autocorrelation can be distinguished from chance.
_FEWEST_SAMPLES: Final = 8
#: Upper limit of the autocorrelation, since near 1 hardly any sample would count as independent.
_LARGEST_CORRELATION: Final = 0.98


def interval_of_calls(samples: Sequence[float], confidence: float, inflation: float) -> Estimate:
    """Compute the median of the calls of one process, with an interval for that process.

    n autocorrelated samples count as ``m = n / inflation`` independent samples, where ``inflation``
    is their ``variance_inflation``.  The ranks of the interval's ends among m samples are scaled to
    n samples.  If m samples cannot reach the level ``confidence``, the interval is the range of the
    samples, with the level ``1 - 2^(1 - m)``.
    """
    interval_if_independent = median_interval(samples, confidence)
    n = len(samples)
    m = n / inflation
    if m == n:
        return interval_if_independent
    value = interval_if_independent.value
    ordered = sorted(samples)
    rank_of_m, reached = binomial_rank(max(1, math.floor(m)), confidence)
    if reached < confidence:
        level = max(0.0, 1 - 2 ** (1 - m))
        return Estimate(value, ordered[0], ordered[-1], n, min(level, confidence))
    rank = max(1, math.floor((rank_of_m - 0.5) * n / math.floor(m) + 0.5))
    return Estimate(value, ordered[rank - 1], ordered[n - rank], n, reached)


def variance_inflation(samples: Sequence[float]) -> float:
    """Return the factor by which autocorrelation raises the variance of the true median's rank.

    The rank counts the samples below the true median.  The factor is at least 1.  The model is a
    stationary Gaussian process of first order with autocorrelation ρ: the signs of samples at
    distance k correlate with ``2/π · asin(ρ^k)`` (Kedem 1980).  ρ follows from Spearman's rank
    correlation of neighbouring samples, corrected for the bias ``(1 + 4ρ)/n`` (Marriott and Pope
    1954).
    """
    n = len(samples)
    if n < _FEWEST_SAMPLES:
        return 1.0
    ranks = _ranks(samples)
    if len(set(ranks[:-1])) < 2 or len(set(ranks[1:])) < 2:
        return 1.0  # the correlation of constants is undefined
    spearman = statistics.correlation(ranks[:-1], ranks[1:])
    pearson = 2 * math.sin(math.pi * spearman / 6)
    rho = min(pearson + (1 + 4 * max(pearson, 0.0)) / n, _LARGEST_CORRELATION)
    if rho <= 2 / math.sqrt(n):
        return 1.0  # not distinguishable from independent samples
    terms = [(1 - k / n) * 2 / math.pi * math.asin(rho**k) for k in range(1, n)]
    return 1 + 2 * math.fsum(terms)


def _ranks(samples: Sequence[float]) -> list[float]:
    """Rank the samples; equal samples share their mean rank."""
    ordered = sorted(samples)
    mean_ranks: dict[float, float] = {}
    for sample in set(samples):
        first, end = bisect_left(ordered, sample), bisect_right(ordered, sample)
        mean_ranks[sample] = (first + end) / 2
    return [mean_ranks[sample] for sample in samples]


@dataclass(frozen=True, slots=True)
class Process:
    """Samples of one process of a run, in order; ``disturbed``: other programs ran meanwhile.

    Median and inflation are computed once.  They have slots, since ``cached_property`` would need a
    dictionary for each of the 100,000 processes of 200 runs.
    """

    run: str
    name: str
    samples: Sequence[float]
    disturbed: bool = False
    _median: float | None = field(default=None, init=False, repr=False, compare=False)
    _inflation: float | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def median(self) -> float:
        """The median of the samples."""
        median = self._median
        if median is None:
            median = statistics.median(self.samples)
            object.__setattr__(self, "_median", median)
        return median

    @property
    def inflation(self) -> float:
        """The number of samples that count as one independent sample (``variance_inflation``)."""
        inflation = self._inflation
        if inflation is None:
            inflation = variance_inflation(self.samples)
            object.__setattr__(self, "_inflation", inflation)
        return inflation
