"""Roofs as figures draw them: a device's two ceilings, and the slopes of its caches."""

from __future__ import annotations

from typing import Literal

from figures.roofline import CacheRoof, Ceiling, RoofLine
from report.statistics.estimates import Estimate
from report.studies.training_roofline.measured import Run
from report.theory.roofline import Roof

GIGA, TERA = 1e9, 1e12
Look = Literal["measured", "sheet", "printed"]


def roof_line(roof: Roof, label: str, look: Look, unit: float) -> RoofLine:
    """A roof in the unit of a figure's rates."""
    return RoofLine(label, _ceiling(roof.peak, unit), _ceiling(roof.bandwidth, unit), look)


def _ceiling(found: Estimate, unit: float) -> Ceiling:
    return Ceiling(found.low / unit, found.value / unit, found.high / unit)


def cache_lines(run: Run, unit: float) -> tuple[CacheRoof, ...]:
    """The slopes of a run's caches; none where they were not measured."""
    return tuple(
        CacheRoof(name, _ceiling(bandwidth, unit)) for name, bandwidth in run.cache_roofs().items()
    )


def told_caches(run: Run) -> str:
    """What an alternative text says of the caches."""
    return "".join(
        f", {name} at {rate.value / GIGA:.3g} GB/s" for name, rate in run.cache_roofs().items()
    )
