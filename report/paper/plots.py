"""Quantities over the levels of a factor, and distributions, as the points, lines and bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from figures.dots import Dots, DotSeries
from figures.points import Points
from figures.scaling import Band, Curve
from report.missing import Missing
from report.quantity.distribution import PERCENTS, Distribution
from report.quantity.evaluation import number
from report.quantity.expression import Quantity
from report.statistics.estimates import Estimate
from report.text.format import scale_to

#: Half the distance of two series in one row (rows).
_APART: Final = 0.2
#: Labels of more levels than these would touch.
_MANY: Final = 6


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
    bounds = [
        (e.low, e.value, e.high) if isinstance(e, Estimate) else (e,) * 3 for e in known.values()
    ]
    low, value, high = (tuple(factor * x for x in column) for column in zip(*bounds, strict=True))
    exact = low == high
    ends = ((), ()) if exact else (low, high)
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
    factor = scale_to(shown, str(ceiling.unit)).factor
    low, value, high = (factor * end for end in _ends(found))
    return (Band(label, low, value, high, series),)


def _ends(found: int | float | Estimate) -> tuple[float, float, float]:
    if isinstance(found, Estimate):
        return found.low, found.value, found.high
    return found, found, found


def quantile_series(
    label: str, rows: Sequence[Distribution], number: int = 0, shift: float = 0.0
) -> DotSeries:
    """A median a row, with lines between its outer and its inner quantiles."""
    cuts = [tuple(map(row.cut, PERCENTS)) if row.known else (None,) * 4 for row in rows]
    outer, _, _, end = zip(*cuts, strict=True) if cuts else ((),) * 4
    inner = tuple((low, high) if low and high else None for _, low, high, _ in cuts)
    medians = tuple(row.cut(50) if row.known else None for row in rows)
    return DotSeries(label, medians, number, False, outer, end, inner, shift)


def distribution_rows(
    title: str,
    rows: Mapping[str, Sequence[Distribution]],
    names: Sequence[str],
    x_label: str,
    lines: Mapping[str, float] | None = None,
) -> Dots:
    """Distributions of ratios in named rows, a series a label, with their numbers of networks.

    ``lines`` are ratios to compare with, by their names.
    """
    counts = (
        ", ".join(str(len(each.numbers)) for each in row)
        for row in zip(*rows.values(), strict=True)
    )
    series = (
        quantile_series(label, each, place, _APART * (2 * place - 1) if len(rows) > 1 else 0.0)
        for place, (label, each) in enumerate(rows.items())
    )
    shown = tuple(f"{name} ({count})" for name, count in zip(names, counts, strict=True))
    return Dots(shown, tuple(series), x_label, 1.0, title, lines=tuple((lines or {}).items()))
