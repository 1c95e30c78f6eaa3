"""Quantities over the levels of a factor, as points, lines, bands and dots of a figure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from figures.panels import Band, DotSeries, Points
from report.core.missing import Missing
from report.core.statistics.estimates import Estimate
from report.core.text.format import Number, scale_to
from report.quantity.evaluation import number
from report.quantity.expression import Quantity

GIGA: Final = 1e9


def points(
    label: str,
    over: Mapping[int, Quantity],
    shown: str,
    *,
    series: int = 0,
    hollow: bool = False,
    joined: bool = False,
) -> tuple[Points, ...]:
    """Plot a quantity ``over`` the levels at which it is known, in the unit ``shown``.

    Returns an empty tuple if it is known at no level.  A line joins the points if ``joined`` is
    set and no level between the first and the last is missing.
    """
    known = {}
    for level, quantity in over.items():
        value = number(quantity)
        if not isinstance(value, Missing):
            known[level] = value
    if not known:
        return ()
    factor = scale_to(shown, str(next(iter(over.values())).unit)).factor
    lows, values, highs = zip(
        *(interval_ends(value, factor) for value in known.values()), strict=True
    )
    ends = ((), ()) if lows == highs else (lows, highs)
    levels, first, *_ = list(over), next(iter(known))
    between = levels[levels.index(first) :][: len(known)]
    whole = joined and between == list(known)
    return (Points(label, tuple(known), values, *ends, series, hollow, whole),)


def band(label: str, ceiling: Quantity, shown: str, series: int) -> tuple[Band, ...]:
    """Draw a horizontal line with its interval; return an empty tuple if it was not measured.

    The skeleton of a new study draws its ceiling by this function.
    """
    value = number(ceiling)
    if isinstance(value, Missing):
        return ()
    return (Band(label, *interval_ends(value, scale_to(shown, str(ceiling.unit)).factor), series),)


def interval_ends(value: Number | Estimate, factor: float) -> tuple[float, float, float]:
    """Scale low end, value and high end by ``factor``."""
    if isinstance(value, Estimate):
        return factor * value.low, factor * value.value, factor * value.high
    return (factor * value,) * 3


def dot_series(
    label: str, rows: Sequence[Quantity], shown: str, *, series: int = 0, **look: Any
) -> DotSeries:
    """Draw one point per row with its interval, in the unit ``shown``; none if it is missing.

    ``look`` are further fields of the series.
    """
    lows: list[float | None] = []
    values: list[float | None] = []
    highs: list[float | None] = []
    for quantity in rows:
        value = number(quantity)
        factor = scale_to(shown, str(quantity.unit)).factor
        ends = (None, None, None) if isinstance(value, Missing) else interval_ends(value, factor)
        for numbers, end in zip((lows, values, highs), ends, strict=True):
            numbers.append(end)
    return DotSeries(label, tuple(values), series, low=tuple(lows), high=tuple(highs), **look)
