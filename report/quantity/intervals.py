"""Intervals of medians at the level that the data allow.

Calls of one process resemble each other, and processes differ by more than their calls, so that the
units are processes, or runs if there are several.  With one process the calls are the units: their
interval is widened for autocorrelation, and is about that process alone.
"""

import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from report.core.statistics.estimates import Estimate, binomial_rank, median_interval

#: Fewest units whose autocorrelation can be told from chance.
_FEWEST: Final = 8
#: Largest autocorrelation that is used; beyond it the effective length would vanish.
_MOST_ALIKE: Final = 0.98


def calls_interval(samples: Sequence[float], confidence: float, inflation: float) -> Estimate:
    """Compute the median of the calls of one process, with an interval for that process.

    Of n autocorrelated samples ``m = n / inflation`` count (see ``inflation``): the ranks of m
    independent samples are stretched to n.  If m samples cannot reach the level, the interval is
    the range of the samples, with its level ``1 - 2^(1 - m)``.  Raises ``StudyError`` as
    ``median_interval`` does.
    """
    plain = median_interval(samples, confidence)
    n, effective = len(samples), len(samples) / inflation
    if effective == n:
        return plain
    rank, reached = binomial_rank(max(1, math.floor(effective)), confidence)
    ordered = sorted(samples)
    if reached < confidence:
        level = max(0.0, 1 - 2 ** (1 - effective))
        return Estimate(plain.value, ordered[0], ordered[-1], n, min(level, confidence))
    stretched = max(1, math.floor((rank - 0.5) * n / math.floor(effective) + 0.5))
    return Estimate(plain.value, ordered[stretched - 1], ordered[n - stretched], n, reached)


def inflation(samples: Sequence[float]) -> float:
    """Return the variance of a median's rank over that of independent samples, at least 1.

    The model is a stationary first-order process of normal ranks: signs k apart then
    correlate as ``2/π · asin(ρ^k)`` (Kedem 1980), with ρ from Spearman's rank correlation of
    neighbours, less its bias ``(1 + 4ρ)/n`` (Marriott and Pope 1954).
    """
    n = len(samples)
    if n < _FEWEST:
        return 1.0
    ranks = _ranks(samples)
    if len(set(ranks[:-1])) < 2 or len(set(ranks[1:])) < 2:
        return 1.0
    spearman = statistics.correlation(ranks[:-1], ranks[1:])
    pearson = 2 * math.sin(math.pi * spearman / 6)
    rho = min(pearson + (1 + 4 * max(pearson, 0.0)) / n, _MOST_ALIKE)
    if rho <= 2 / math.sqrt(n):
        return 1.0
    lags = range(1, n)
    return 1 + 2 * math.fsum((1 - k / n) * 2 / math.pi * math.asin(rho**k) for k in lags)


def _ranks(samples: Sequence[float]) -> list[float]:
    """Rank the samples; equal ones share their mean rank."""
    ordered = sorted(samples)
    middle = {
        sample: (bisect_left(ordered, sample) + bisect_right(ordered, sample)) / 2
        for sample in set(samples)
    }
    return [middle[sample] for sample in samples]


@dataclass(frozen=True)
class Process:
    """Samples of one process of a run, in the order of measurement.

    ``disturbed`` says that other programs ran meanwhile.
    """

    run: str
    name: str
    samples: tuple[float, ...]
    disturbed: bool = False

    @cached_property
    def median(self) -> float:
        """The median of its samples."""
        return statistics.median(self.samples)

    @cached_property
    def inflation(self) -> float:
        """Number of its samples that weigh as much as one independent sample."""
        return inflation(self.samples)
