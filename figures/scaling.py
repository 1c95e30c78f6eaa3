"""A quantity over an ordered factor: points with intervals, lines of theory, bands of ceilings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

#: How far an axis that several panels share goes beyond what is drawn, as a factor.
_ROOM: Final = 1.05


@dataclass(frozen=True)
class Points:
    """Measured or reported points; ``joined`` only where the factor is ordered and complete.

    ``low`` and ``high`` are the ends of the intervals, empty where there are none.  Of ``many``
    none is meant by itself, so that they are small.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    series: int = 0
    hollow: bool = False
    joined: bool = False
    many: bool = False


@dataclass(frozen=True)
class Curve:
    """A line that was computed, not measured: theory, or a fit."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    look: Literal["theory", "part", "fit"] = "theory"
    series: int = 0


@dataclass(frozen=True)
class Band:
    """A horizontal line with its interval over the whole width, such as a measured ceiling."""

    label: str
    low: float
    middle: float
    high: float
    series: int = 0


@dataclass(frozen=True)
class Scaling:
    """A finished description of the figure: what is drawn, in the units of its labels.

    ``direct`` says that the names of points stand at the right ends of their lines, and in no
    legend.  ``y_top`` and ``y_bottom`` are the ends of the axis, where other panels have the same.
    """

    x_label: str
    y_label: str
    points: tuple[Points, ...] = ()
    curves: tuple[Curve, ...] = ()
    bands: tuple[Band, ...] = ()
    x_ticks: tuple[float, ...] = ()
    x_scale: Literal["linear", "log"] = "log"
    y_scale: Literal["linear", "log"] = "log"
    y_from_zero: bool = False
    title: str = ""
    direct: bool = False
    y_top: float | None = None
    y_bottom: float | None = None


def alike(panels: Sequence[Scaling]) -> tuple[Scaling, ...]:
    """The panels with the same ends of their axes, so that they can be compared.

    The lower ends of linear axes stay their own.
    """
    ends = [
        y for panel in panels for each in panel.points for y in (*each.y, *each.low, *each.high)
    ]
    ends += [y for panel in panels for curve in panel.curves for y in curve.y]
    ends += [end for panel in panels for band in panel.bands for end in (band.low, band.high)]
    if len(panels) < 2 or not ends:
        return tuple(panels)
    top, least = max(ends) * _ROOM, min((y for y in ends if y > 0), default=None)
    bottom = None if least is None else least / _ROOM
    return tuple(
        replace(each, y_top=top, y_bottom=bottom if each.y_scale == "log" else None)
        for each in panels
    )
