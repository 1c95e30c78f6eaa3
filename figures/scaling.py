"""A quantity over an ordered factor: points with intervals, lines of theory, bands of ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Points:
    """Measured or reported points; ``joined`` only where the factor is ordered and complete.

    ``low`` and ``high`` are the ends of the intervals, empty where there are none.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    series: int = 0
    hollow: bool = False
    joined: bool = False


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
class Absent:
    """Where a case ended without a number, such as out of memory: crosses at the upper edge."""

    label: str
    x: tuple[float, ...]
    series: int = 0


@dataclass(frozen=True)
class Scaling:
    """A finished description of the figure: what is drawn, in the units of its labels.

    ``direct`` says that the names of points stand at the right ends of their lines, and in no
    legend.
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
    absent: tuple[Absent, ...] = ()
    direct: bool = False
