"""Values between bounds, and what arithmetic makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

#: A value between its bounds: (value, low, high).
Interval: TypeAlias = tuple[float, float, float]


def product_bounds(intervals: Sequence[Interval]) -> Interval:
    """The bounds of a product of two."""
    (a, a_low, a_high), (b, b_low, b_high) = intervals
    ends = [x * y for x in (a_low, a_high) for y in (b_low, b_high)]
    return a * b, min(ends), max(ends)


def quotient_bounds(intervals: Sequence[Interval]) -> Interval:
    """The bounds of a quotient of two; raises ``ZeroDivisionError``."""
    above, (value, low, high) = intervals
    if low <= 0 <= high:
        raise ZeroDivisionError("the interval of the divisor holds 0")
    return product_bounds([above, (1 / value, 1 / high, 1 / low)])
