"""Quantities over the levels of a factor, roofs and reconciliations, as papers draw them."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from figures.panels import Band, Bar, DotSeries, Points, RoofLine, Waterfall
from report.core.missing import Missing
from report.core.statistics.estimates import Estimate
from report.core.text.format import Number, scale_for, scale_to
from report.quantity.evaluation import number
from report.quantity.expression import Quantity
from report.theory.reconciliation import Reconciliation, Term
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


def roof_line(roof: Roof, label: str, unit: float) -> RoofLine:
    """Draw a roof in the unit of a figure's rates."""
    return RoofLine(
        label, interval_ends(roof.peak, 1 / unit), interval_ends(roof.bandwidth, 1 / unit)
    )


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


def as_figure(reconciliation: Reconciliation) -> Waterfall:
    """Draw a reconciliation as bars; labels carry the exact numbers."""
    measured, unit = reconciliation.measured, reconciliation.unit
    start = Bar(reconciliation.start.name, reconciliation.start.amount)
    terms = tuple(Bar(term.name, term.amount) for term in reconciliation.terms)
    levels = list(accumulate((term.amount for term in terms), initial=start.amount))
    if isinstance(measured, Term):
        levels.append(measured.amount)
    scale = scale_for(max(map(abs, levels)), unit)
    return Waterfall(
        start,
        terms,
        Bar(measured.name, measured.amount) if isinstance(measured, Term) else None,
        reconciliation.residual_name,
        unit,
        f"From zero ({scale.unit})",
        1 / scale.factor,
    )
