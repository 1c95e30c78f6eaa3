"""Ranges of numbers for which a claim holds."""

import math
from dataclasses import dataclass

from report.core.statistics.estimates import Estimate


@dataclass(frozen=True)
class Range:
    """Numbers for which a claim holds; a ``closed`` range includes ``low`` and ``high``."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = False

    def holds(self, estimate: Estimate) -> bool:
        """Tell whether the whole interval is in the range."""
        return self._is_below(self.low, estimate.low) and self._is_below(estimate.high, self.high)

    def excludes(self, estimate: Estimate) -> bool:
        """Tell whether no part of the interval is in the range."""
        ends_above_low = self._is_below(self.low, estimate.high)
        begins_below_high = self._is_below(estimate.low, self.high)
        return not (ends_above_low and begins_below_high)

    def _is_below(self, low: float, high: float) -> bool:
        """Tell whether ``low`` is below ``high``, or equal in a closed range."""
        return low < high or (self.closed and low == high)
