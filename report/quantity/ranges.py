"""Ranges of numbers for which a claim holds."""

import math
from dataclasses import dataclass

from report.core.errors import StudyError
from report.core.statistics.estimates import Estimate


@dataclass(frozen=True)
class Range:
    """Numbers for which a claim holds; a ``closed`` range includes the ends."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = False

    def holds(self, estimate: Estimate) -> bool:
        """Tell whether the whole interval is in the range."""
        return self._above(self.low, estimate.low) and self._above(estimate.high, self.high)

    def excludes(self, estimate: Estimate) -> bool:
        """Tell whether no part of the interval is in the range."""
        return not (self._above(self.low, estimate.high) and self._above(estimate.low, self.high))

    def _above(self, low: float, high: float) -> bool:
        return low < high or (self.closed and low == high)


def equals(number: float, within: float) -> Range:
    """Return the range of numbers that count as equal to ``number``.

    Raises ``StudyError`` unless ``within`` is positive: measurements never support exact equality.
    """
    if not within > 0:
        raise StudyError(f"Equality with {number} needs a positive margin, found {within}.")
    return Range(number - within, number + within, closed=True)
