"""When a series of durations is not one distribution around a centre: spread and bimodality."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from report.errors import StudyError
from report.missing import Missing

#: A deviation of more than this share of the mean is no scatter of one steady process.
WIDE: Final = 0.1
#: The bimodality coefficient of the uniform distribution; above it there may be two modes (Pfister
#: et al. 2013).
UNIFORM: Final = 5 / 9
#: Fewer samples than this do not tell the shape of a distribution.
ENOUGH: Final = 10


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation and extremes of durations in s, as a source prints them too.

    ``bimodality`` is missing where only these four are known, or too few samples.
    """

    mean: float
    deviation: float
    smallest: float
    largest: float
    bimodality: float | Missing

    @property
    def relative(self) -> float:
        """The deviation as a share of the mean (coefficient of variation)."""
        return self.deviation / self.mean

    @property
    def wide(self) -> bool:
        """Whether the deviation is more than scatter."""
        return self.relative > WIDE

    @property
    def bimodal(self) -> bool:
        """Whether the shape, as far as it is known, speaks for two modes."""
        return not isinstance(self.bimodality, Missing) and self.bimodality > UNIFORM

    @property
    def unsteady(self) -> bool:
        """Whether the durations scatter widely, or lie around two centres that lie far apart.

        Two modes within half of what counts as wide are no anomaly.
        """
        return self.wide or (self.bimodal and self.relative > WIDE / 2)


def spread(samples: Sequence[float]) -> Spread:
    """The spread of positive durations; raises ``StudyError`` for fewer than two."""
    if len(samples) < 2:
        raise StudyError(f"A spread needs at least 2 values, found {len(samples)}; measure more.")
    return Spread(
        statistics.fmean(samples),
        statistics.stdev(samples),
        min(samples),
        max(samples),
        bimodality(samples),
    )


def bimodality(samples: Sequence[float]) -> float | Missing:
    """Sarle's bimodality coefficient, 0 to 1: 1 for two points, 5/9 for a uniform distribution.

    ``(g² + 1) / (k + 3 (n - 1)² / ((n - 2)(n - 3)))`` with the sample skewness g and the sample
    excess kurtosis k, both with the usual corrections for n (Pfister et al. 2013, equation 1).
    """
    n = len(samples)
    if n < ENOUGH:
        return Missing(f"fewer than {ENOUGH} samples do not tell a shape")
    centre = statistics.fmean(samples)
    second, third, fourth = (
        math.fsum((sample - centre) ** power for sample in samples) / n for power in (2, 3, 4)
    )
    if second == 0:
        return Missing("all samples are equal")
    skewness = third / second**1.5 * math.sqrt(n * (n - 1)) / (n - 2)
    excess = (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * (fourth / second**2 - 3) + 6)
    return float((skewness**2 + 1) / (excess + 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))))
