"""Convert quantities to points, lines, bands and dots of a figure."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from figures.panels import Band, DotSeries, Points
from report.core.missing import Missing
from report.core.statistics.estimates import Estimate
from report.core.text.format import Number, scale_to
from report.quantity.evaluation import printed_number
from report.quantity.expression import Quantity

#: Low end, value and high end.
_Ends: TypeAlias = tuple[float, float, float]


def points(
    label: str,
    over: Mapping[int, Quantity],
    shown: str,
    *,
    style_number: int = 0,
    hollow: bool = False,
    joined: bool = False,
) -> tuple[Points, ...]:
    """Plot a quantity against a factor, in the unit ``shown``; ``over`` maps levels to quantities.

    Levels whose quantity is missing are dropped; the result is empty if all are missing.  A line
    joins the points if ``joined`` is set and no level between the first and the last is missing.
    """
    ends_by_level = {}
    for level, quantity in over.items():
        if ends := _ends(quantity, shown):
            ends_by_level[level] = ends
    if not ends_by_level:
        return ()
    lows, values, highs = zip(*ends_by_level.values(), strict=True)
    intervals = ((), ()) if lows == highs else (lows, highs)
    levels, known_levels = list(over), list(ends_by_level)
    first = levels.index(known_levels[0])
    is_line = joined and levels[first : first + len(known_levels)] == known_levels
    return (Points(label, tuple(known_levels), values, *intervals, style_number, hollow, is_line),)


def band(label: str, ceiling: Quantity, shown: str, style_number: int) -> tuple[Band, ...]:
    """Draw a ceiling as a horizontal line with its interval; () if the ceiling is missing."""
    ends = _ends(ceiling, shown)
    return (Band(label, *ends, style_number),) if ends else ()


def dot_series(
    label: str, rows: Sequence[Quantity], shown: str, *, style_number: int = 0, **look: Any
) -> DotSeries:
    """Draw a point with its interval for each quantity of ``rows`` that is not missing.

    ``shown`` is the unit of the axis; ``look`` are further fields of ``DotSeries``.
    """
    ends = [_ends(quantity, shown) or (None, None, None) for quantity in rows]
    lows, values, highs = zip(*ends, strict=True) if ends else ((), (), ())
    return DotSeries(label, values, style_number, low=lows, high=highs, **look)


def _ends(quantity: Quantity, shown: str) -> _Ends | None:
    """Evaluate a quantity in the unit ``shown``; return None if it is missing."""
    value = printed_number(quantity)
    if isinstance(value, Missing):
        return None
    return interval_ends(value, scale_to(shown, str(quantity.unit)).factor)


def interval_ends(value: Number | Estimate, factor: float) -> _Ends:
    """Return low end, value and high end, each multiplied by ``factor``."""
    if isinstance(value, Estimate):
        return factor * value.low, factor * value.value, factor * value.high
    return (factor * value,) * 3
