"""Descriptions of figures: their panels, in numbers and texts, and their size.

Each kind of panel is a frozen dataclass, and has a module that draws it.  Studies import only the
descriptions, so that a change of a figure's look does not compute the studies again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final, Literal, TypeAlias

#: Columns of a figure's data: a point of ``series`` with a name or a position ``at``, its value and
#: the ends of its interval; None for missing ones.
COLUMNS: Final = (
    "panel", "series", "name", "at_label", "at", "value_label", "value", "low", "high",
)  # fmt: skip
#: The cells of all columns except the first.
DataRow: TypeAlias = tuple[str | float | None, ...]
#: A peak rate or a bandwidth with its interval: low, middle, high.
RoofLimit: TypeAlias = tuple[float, float, float]

#: Heights in inches: a row of dots, and the rest of a panel of dots.
_DOT_ROW, _DOT_REST = 0.155, 0.75
#: Height in inches of a row of a grid of letters.
_GRID_ROW: Final = 0.19


class Panel(ABC):
    """A panel of a figure, with numbers in the units of its labels.

    Subclasses are frozen dataclasses of texts, numbers and tuples.
    """

    title: str

    @abstractmethod
    def rows(self) -> Iterator[DataRow]:
        """Yield the drawn numbers, in the columns after the first."""


@dataclass(frozen=True)
class Drawing:
    """A figure of a paper: panels in ``rows``, and the ``height`` in inches.

    ``same_axes`` gives the panels of a row a common range, for comparisons.  ``place`` names the
    function that describes the figure, for readers of its page.
    """

    panels: tuple[Panel, ...]
    wide: bool = False
    height: float = 2.3
    same_axes: bool = False
    rows: int = 1
    place: str = ""

    @property
    def card(self) -> Drawing:
        """The first panel alone, which stays legible where papers are listed."""
        height = self.height / self.rows
        return replace(self, panels=self.panels[:1], wide=False, height=height, rows=1)

    def data(self) -> Iterator[DataRow]:
        """Yield the drawn numbers of all panels in ``COLUMNS``."""
        for number, panel in enumerate(self.panels, start=1):
            for row in panel.rows():
                yield panel.title or str(number), *row


@dataclass(frozen=True)
class Points:
    """Measured or reported points, ``joined`` by lines if the factor is ordered and complete.

    ``low`` and ``high`` are the ends of the intervals, empty for points without.  ``names`` are
    written beside the points unless empty.  Points of ``many`` are small, since only their
    distribution matters.
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
    names: tuple[str, ...] = ()

    def rows(self, x_label: str, y_label: str) -> Iterator[DataRow]:
        """Yield the points as data of a panel with these labels."""
        points = zip_longest(self.x, self.y, self.low, self.high, self.names)
        for x, y, low, high, name in points:
            yield self.label, name, x_label, x, y_label, y, low, high


@dataclass(frozen=True)
class Curve:
    """A computed line of theory; dotted if it shows a ``part`` of the predictions."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    part: bool = False


@dataclass(frozen=True)
class Band:
    """A range of an axis with its middle over the whole panel, such as a measured peak."""

    label: str
    low: float
    middle: float
    high: float
    series: int = 0


@dataclass(frozen=True)
class Scaling(Panel):
    """A quantity over an ordered factor: points with intervals, lines of theory, bands of peaks.

    With ``direct`` the names of points are written at the right ends of their lines, not in a
    legend, and hollow points without a line have none; without ``legend`` the panel beside has it.
    ``y_top`` and ``y_bottom`` replace the ends of the axis, and ``regions`` are names of parts of
    the panel with their left ends; a band that has the name of one is not named again.
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
    legend: bool = True
    y_top: float | None = None
    y_bottom: float | None = None
    regions: tuple[tuple[str, float, float], ...] = ()

    def rows(self) -> Iterator[DataRow]:
        """Yield points, curves and bands."""
        x, y = self.x_label, self.y_label
        for points in self.points:
            yield from points.rows(x, y)
        for curve in self.curves:
            yield from Points(curve.label, curve.x, curve.y).rows(x, y)
        for band in self.bands:
            yield band.label, None, None, None, y, band.middle, band.low, band.high


@dataclass(frozen=True)
class RoofLine:
    """A roof: ``peak`` in the unit of the rates, ``bandwidth`` in this unit per intensity."""

    label: str
    peak: RoofLimit
    bandwidth: RoofLimit

    @property
    def ridge(self) -> float:
        """The intensity at which both limits are equal."""
        return self.peak[1] / self.bandwidth[1]


@dataclass(frozen=True)
class Roofline(Panel):
    """Achieved rate over arithmetic intensity under the roofs of a device.

    All intensities and rates of ``marks`` are above 0, so that work without multiply-adds cannot be
    drawn.  The parts of a roof without a label are named: memory and arithmetic.
    """

    x_label: str
    y_label: str
    roofs: tuple[RoofLine, ...]
    marks: tuple[Points, ...] = ()
    title: str = ""

    def rows(self) -> Iterator[DataRow]:
        """Yield the limits of the roofs, and the marks."""
        rate, slope = self.y_label, f"{self.y_label} / {self.x_label}"
        for roof in self.roofs:
            yield roof.label, "peak", None, None, rate, *_middle_first(roof.peak)
            yield roof.label, "bandwidth", None, None, slope, *_middle_first(roof.bandwidth)
        for marks in self.marks:
            yield from marks.rows(self.x_label, rate)


def _middle_first(limit: RoofLimit) -> RoofLimit:
    low, middle, high = limit
    return middle, low, high


@dataclass(frozen=True)
class BarSeries:
    """A bar per row; None in a row without.  ``low`` and ``high`` are the ends of intervals."""

    label: str
    x: tuple[float | None, ...]
    series: int = 0
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Bars(Panel):
    """Named rows from top to bottom, with bars.

    Bars start at zero: positive ones are stacked to the right, negative ones to the left.  A line
    at the ``reference`` crosses all rows.
    """

    names: tuple[str, ...]
    series: tuple[BarSeries, ...]
    x_label: str
    title: str = ""
    reference: float | None = None

    def rows(self) -> Iterator[DataRow]:
        """Yield each series row by row."""
        for series in self.series:
            for name, *bar in zip_longest(self.names, series.x, series.low, series.high):
                yield series.label, name, None, None, self.x_label, *bar


@dataclass(frozen=True)
class DotSeries:
    """A point per row, None in a row without; ``hollow`` points are rings.

    ``low`` and ``high`` are the ends of the intervals, empty for a series without.  ``inner`` are
    the ends of a thicker line, such as quartiles within outer quantiles.  ``shift`` moves a series
    down by a part of a row, so that its lines do not cover those of another series.
    """

    label: str
    x: tuple[float | None, ...]
    series: int = 0
    hollow: bool = False
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    inner: tuple[tuple[float, float] | None, ...] = ()
    shift: float = 0.0


@dataclass(frozen=True)
class Dots(Panel):
    """Named rows from top to bottom, with points.

    On a ``log`` scale a ratio and its inverse are equally far from one.  A panel with the same rows
    as its left neighbour need not be ``named`` again.  ``x_top`` ends a linear scale from zero.
    ``bands`` are ranges of the axis that all rows are compared with.  Without ``legend`` the
    caption names the series.
    """

    names: tuple[str, ...]
    series: tuple[DotSeries, ...]
    x_label: str
    reference: float | None = None
    title: str = ""
    log: bool = False
    named: bool = True
    x_top: float | None = None
    bands: tuple[Band, ...] = ()
    legend: bool = True
    x_ticks: tuple[float, ...] = ()

    @property
    def height(self) -> float:
        """The height in inches for this number of rows."""
        return round(_DOT_REST + _DOT_ROW * (len(self.names)), 2)

    def rows(self) -> Iterator[DataRow]:
        """Yield each series row by row, and the bands."""
        for band in self.bands:
            yield band.label, None, None, None, self.x_label, band.middle, band.low, band.high
        for series in self.series:
            for name, *point in zip_longest(self.names, series.x, series.low, series.high):
                yield series.label, name, None, None, self.x_label, *point


@dataclass(frozen=True)
class Grid(Panel):
    """A letter for each row and column, such as machines and claims; empty where none applies.

    A letter has one colour everywhere, by its place in ``letters``.
    """

    names: tuple[str, ...]
    headings: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    letters: str
    x_label: str
    title: str = ""

    @property
    def height(self) -> float:
        """The height in inches for this number of rows."""
        return round(_DOT_REST + _GRID_ROW * len(self.names), 2)

    def rows(self) -> Iterator[DataRow]:
        """Yield the place of each letter in ``letters``, cell by cell."""
        for name, cells in zip(self.names, self.cells, strict=True):
            for heading, letter in zip(self.headings, cells, strict=True):
                if letter:
                    label = f"{self.x_label} {heading}: {letter}"
                    yield label, name, None, None, "letter", self.letters.index(letter), None, None
