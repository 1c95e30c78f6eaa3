"""Roofs as figures draw them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from figures.roofline import Ceiling, RoofLine
from report.statistics.estimates import Estimate
from report.theory.roofline import Roof

GIGA: Final = 1e9
TERA: Final = 1e12
Look = Literal["measured", "sheet", "printed"]


def roof_line(roof: Roof, label: str, look: Look, unit: float) -> RoofLine:
    """A roof in the unit of a figure's rates."""
    return RoofLine(label, _ceiling(roof.peak, unit), _ceiling(roof.bandwidth, unit), look)


def cache_lines(caches: Mapping[str, Estimate], unit: float) -> tuple[tuple[str, Ceiling], ...]:
    """The slopes of caches by their names; none where they were not measured."""
    return tuple((name, _ceiling(rate, unit)) for name, rate in caches.items())


def _ceiling(found: Estimate, unit: float) -> Ceiling:
    return found.low / unit, found.value / unit, found.high / unit
