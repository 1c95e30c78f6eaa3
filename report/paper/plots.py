"""Quantities over the levels of a factor, and roofs, as figures draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from figures.panels import Band, Curve, DotSeries, Points, RoofLine
from report.core.missing import Missing
from report.core.statistics.estimates import Estimate
from report.core.text.format import Number, scale_to
from report.quantity.evaluation import number
from report.quantity.expression import Quantity
from report.theory.roofline import Roof

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
    """The levels at which the quantity is known, with intervals, in the unit ``shown``.

    Nothing where it is known at no level; joined only where it is known at all between its ends.
    """
    found = {level: number(each) for level, each in over.items()}
    known = {level: item for level, item in found.items() if not isinstance(item, Missing)}
    if not known:
        return ()
    factor = scale_to(shown, str(next(iter(over.values())).unit)).factor
    low, value, high = zip(*(_ends(each, factor) for each in known.values()), strict=True)
    ends = ((), ()) if low == high else (low, high)
    levels, first, *_ = list(over), next(iter(known))
    between = levels[levels.index(first) :][: len(known)]
    whole = joined and between == list(known)
    return (Points(label, tuple(known), value, *ends, series, hollow, whole),)


def theory_line(
    label: str, over: Mapping[int, Quantity], shown: str, *, part: bool = False
) -> Curve:
    """A line of theory, which is known at every level."""
    (drawn,) = points(label, over, shown)
    return Curve(label, drawn.x, drawn.y, part)


def band(label: str, ceiling: Quantity, shown: str, series: int) -> tuple[Band, ...]:
    """A horizontal line with its interval, if it has one; nothing where it was not measured."""
    found = number(ceiling)
    if isinstance(found, Missing):
        return ()
    return (Band(label, *_ends(found, scale_to(shown, str(ceiling.unit)).factor), series),)


def roof_line(roof: Roof, label: str, unit: float) -> RoofLine:
    """A roof in the unit of a figure's rates."""
    return RoofLine(label, _ends(roof.peak, 1 / unit), _ends(roof.bandwidth, 1 / unit))


def _ends(found: Number | Estimate, factor: float) -> tuple[float, float, float]:
    """Low end, value and high end, times a factor."""
    if isinstance(found, Estimate):
        return factor * found.low, factor * found.value, factor * found.high
    return (factor * found,) * 3


def dot_series(
    label: str, rows: Sequence[Quantity], shown: str, *, series: int = 0, **look: Any
) -> DotSeries:
    """A point a row with its interval, in the unit ``shown``; none where the quantity is missing.

    ``look`` are further fields of the series.
    """
    found = [(number(each), scale_to(shown, str(each.unit)).factor) for each in rows]
    ends = [None if isinstance(each, Missing) else _ends(each, factor) for each, factor in found]
    low, value, high = (tuple(each and each[end] for each in ends) for end in range(3))
    return DotSeries(label, value, series, low=low, high=high, **look)
