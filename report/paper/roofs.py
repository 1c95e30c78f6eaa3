"""Roofs and points under them as figures draw them, from quantities and their intervals."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

from figures.roofline import CacheRoof, Ceiling, Marks, RoofLine
from report.missing import Missing
from report.quantity.evaluation import number
from report.quantity.expression import Quantity
from report.statistics.estimates import Estimate
from report.theory.roofline import Roof

GIGA: Final = 1e9
TERA: Final = 1e12
Look = Literal["measured", "sheet", "printed"]


def roof_line(roof: Roof, label: str, look: Look, unit: float) -> RoofLine:
    """A roof in the unit of a figure's rates."""
    return RoofLine(label, _ceiling(roof.peak, unit), _ceiling(roof.bandwidth, unit), look)


def cache_lines(caches: Mapping[str, Estimate], unit: float) -> tuple[CacheRoof, ...]:
    """The slopes of caches by their names; none where they were not measured."""
    return tuple(CacheRoof(name, _ceiling(rate, unit)) for name, rate in caches.items())


def marks(
    label: str,
    over: Mapping[int, tuple[Quantity, Quantity]],
    unit: float,
    *,
    series: int = 0,
    hollow: bool = False,
    named: Collection[int] = (),
) -> tuple[Marks, ...]:
    """Rates over intensities (FLOP/s, FLOP/B) with their intervals, level by level.

    The levels ``named`` stand beside their points.  Nothing where no rate is known.
    """
    found = {
        level: (_middle(number(intensity)), rate)
        for level, (intensity, each) in over.items()
        if not isinstance(rate := number(each), Missing)
    }
    if not found:
        return ()
    rates = [r if isinstance(r, Estimate) else Estimate(r, r, r, 1, 1.0) for _, r in found.values()]
    return (
        Marks(
            label,
            tuple(x for x, _ in found.values()),
            tuple(rate.value / unit for rate in rates),
            tuple(rate.low / unit for rate in rates),
            tuple(rate.high / unit for rate in rates),
            series,
            hollow,
            tuple(f"{level:,}" if level in named else "" for level in found),
        ),
    )


def _middle(found: float | Estimate | Missing) -> float:
    assert not isinstance(found, Missing), "an intensity follows from shapes"
    return found.value if isinstance(found, Estimate) else float(found)


def _ceiling(found: Estimate, unit: float) -> Ceiling:
    return Ceiling(found.low / unit, found.value / unit, found.high / unit)
