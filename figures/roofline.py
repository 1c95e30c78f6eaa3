"""Achieved rate over arithmetic intensity under the roofs of a device, both axes logarithmic.

After Williams, Waterman and Patterson (CACM 2009).  A measured roof is a line with its interval as
a band, one of a data sheet is dashed, one that somebody else drew is dotted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

#: How far the axes go beyond what is drawn, as a factor.
_ROOM: Final = 2.5
#: The share of the axis' decades that one line of the legend is given.
LEGEND_LINE: Final = 0.07


@dataclass(frozen=True)
class Ceiling:
    """A limit with the ends of its interval, in the unit of its axis."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class RoofLine:
    """``peak`` in the unit of the rates; ``bandwidth`` such that it times an intensity is one."""

    label: str
    peak: Ceiling
    bandwidth: Ceiling
    look: Literal["measured", "sheet", "printed"] = "measured"

    @property
    def ridge(self) -> float:
        """The intensity at which both limits meet."""
        return self.peak.middle / self.bandwidth.middle


@dataclass(frozen=True)
class CacheRoof:
    """The slope of a roof over what lies in one cache, up to the flat part of the measured roof.

    ``label`` stands on the line; ``bandwidth`` is in the unit of a ``RoofLine``'s.
    """

    label: str
    bandwidth: Ceiling


@dataclass(frozen=True)
class Marks:
    """Points of one kind.

    ``names`` stand beside the points, on the right and below, where no roof can be; an empty name
    is not drawn.  ``many`` points are drawn small and pale, so that their density shows.
    All intensities and rates are above 0: what does no multiply-adds has no place here.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    series: int = 0
    hollow: bool = False
    names: tuple[str, ...] = ()
    many: bool = False


@dataclass(frozen=True)
class Roofline:
    """A finished description of the figure, in the units of its labels.

    ``caches`` are slopes beside that of the first roof, which is then labelled as memory's.
    ``limits`` are the ends of both axes, where other panels have the same ones.
    """

    x_label: str
    y_label: str
    roofs: tuple[RoofLine, ...]
    marks: tuple[Marks, ...] = ()
    title: str = ""
    caches: tuple[CacheRoof, ...] = ()
    limits: tuple[tuple[float, float], tuple[float, float]] | None = None

    @property
    def slopes(self) -> tuple[CacheRoof, ...]:
        """All slopes under the first roof's flat part, slowest first; none without caches."""
        if not self.caches or not self.roofs:
            return ()
        memory = CacheRoof("memory", self.roofs[0].bandwidth)
        return tuple(sorted((memory, *self.caches), key=lambda each: each.bandwidth.middle))

    @property
    def span(self) -> tuple[float, float]:
        """The intensities that are drawn: all points and ridges, with room on both sides."""
        if self.limits:
            return self.limits[0]
        inside = [*(x for marks in self.marks for x in marks.x), *(r.ridge for r in self.roofs)]
        inside += [self.roofs[0].peak.middle / each.bandwidth.middle for each in self.slopes]
        return (min(inside) / _ROOM, max(inside) * _ROOM) if inside else (0.1, 100.0)

    @property
    def heights(self) -> tuple[float, float]:
        """The rates that are drawn: all points and peaks, with room on both sides."""
        inside = [*(y for marks in self.marks for y in marks.y), *(r.peak.high for r in self.roofs)]
        return (min(inside) / _ROOM, max(inside) * _ROOM) if inside else (0.1, 100.0)

    @property
    def with_legend(self) -> tuple[float, float]:
        """The rates with room above for the legend: nothing lies above a roof."""
        low, high = self.heights
        names = [*(roof.label for roof in self.roofs), *(each.label for each in self.marks)]
        labels = list(filter(None, names))
        lines = len(labels) if len(labels) > 1 else 0
        return low, high * (high / low) ** (LEGEND_LINE * lines)


def alike(panels: Iterable[Roofline]) -> tuple[Roofline, ...]:
    """The panels with the same axes, so that they can be compared."""
    found = tuple(panels)
    if not found:
        return ()
    both = [(panel.span, panel.with_legend) for panel in found]
    (x, y) = (
        (min(low for low, _ in axis), max(high for _, high in axis))
        for axis in zip(*both, strict=True)
    )
    return tuple(replace(panel, limits=(x, y)) for panel in found)
