"""Descriptions of figures: their panels, in numbers and texts, and their size.

Each kind of panel is a frozen dataclass, and a module draws it.  Studies import only these
descriptions, so that a change of the drawing code does not recompute studies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final, Literal, TypeAlias

#: Columns of a figure's data, one row per point.  ``at`` is the x position of a point, ``value``
#: its y position with the interval from ``low`` to ``high``.  Points of named rows have no ``at``.
COLUMNS: Final = (
    "panel", "series", "name", "at_label", "at", "value_label", "value", "low", "high",
)  # fmt: skip
#: Cells of all columns except ``panel``; None for missing numbers.
DataRow: TypeAlias = tuple[str | float | None, ...]
#: A peak rate or a bandwidth with its interval, as (low, middle, high).
RoofLimit: TypeAlias = tuple[float, float, float]

#: Heights (inches) of a row of dots, of a row of letters, and of title, ticks and x label together.
_DOT_ROW, _LETTER_ROW, _TITLE_AND_X_AXIS = 0.155, 0.19, 0.75


class Panel(ABC):
    """A panel of a figure, with numbers in the units of its labels.

    Subclasses are frozen dataclasses of texts, numbers and tuples.
    """

    title: str

    @abstractmethod
    def rows(self) -> Iterator[DataRow]:
        """Yield the drawn numbers in the columns of ``DataRow``."""


@dataclass(frozen=True)
class Drawing:
    """A figure of a paper: panels in ``rows``, and the ``height`` in inches.

    ``wide``: spans both columns of a page.  ``same_axes``: the axes of all panels in a row have one
    range.  ``place``: name of the function that describes the figure, printed on the figure's page.
    """

    panels: tuple[Panel, ...]
    wide: bool = False
    height: float = 2.3
    same_axes: bool = False
    rows: int = 1
    place: str = ""

    @property
    def card(self) -> Drawing:
        """The first panel alone, legible in the small size of a list of papers."""
        height = self.height / self.rows
        panel = self.panels[0]
        if isinstance(panel, (Dots, Scaling)):
            panel = replace(panel, legend=True)
        return replace(self, panels=(panel,), wide=False, height=height, rows=1)

    def data(self) -> Iterator[DataRow]:
        """Yield the drawn numbers of all panels in ``COLUMNS``."""
        for number, panel in enumerate(self.panels, start=1):
            for row in panel.rows():
                yield panel.title or str(number), *row


@dataclass(frozen=True)
class Points:
    """Measured or reported points, ``joined`` by lines if the factor is ordered and complete.

    ``low``, ``high``: ends of the intervals; empty without intervals.  ``series``: number that
    determines colour and marker.  ``names``: labels beside the points; may be empty.  ``many``:
    draw small points, which show only a distribution; ``pale``: draw in grey.  ``shift``: added to
    ``x`` when the points are drawn, so that series do not cover each other.
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
    pale: bool = False
    names: tuple[str, ...] = ()
    shift: float = 0.0

    def rows(self, x_label: str, y_label: str) -> Iterator[DataRow]:
        """Yield the points as data rows of a panel with these labels."""
        points = zip_longest(self.x, self.y, self.low, self.high, self.names)
        for x, y, low, high, name in points:
            yield self.label, name, x_label, x, y_label, y, low, high


@dataclass(frozen=True)
class Curve:
    """A line of predicted values; dotted if it shows only a ``part`` of a prediction.

    ``series``: the points that the line predicts.  The line has the colour of these points, and a
    panel with ``direct`` writes the name of these points at the end of the line.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    part: bool = False
    series: int | None = None


@dataclass(frozen=True)
class Band:
    """A range of an axis, and the middle of the range, such as a measured peak."""

    label: str
    low: float
    middle: float
    high: float
    series: int = 0


@dataclass(frozen=True)
class Scaling(Panel):
    """A quantity over an ordered factor: points with intervals, lines of theory, bands of peaks.

    ``direct``: write names of series at the right ends of lines instead of a legend; hollow points
    without a line have no name.  ``legend``: false if the neighbouring panel has the legend.
    ``y_top``, ``y_bottom``: ends of the y axis.  ``regions``: (name, x, y) of labels inside the
    panel; a band or a curve with the name of a region has no other label.
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
    """A roof: ``peak`` in the unit of rates, ``bandwidth`` in this unit per unit of intensity."""

    label: str
    peak: RoofLimit
    bandwidth: RoofLimit

    @property
    def ridge(self) -> float:
        """The intensity at which both limits are equal."""
        _, peak, _ = self.peak
        _, bandwidth, _ = self.bandwidth
        return peak / bandwidth


@dataclass(frozen=True)
class Roofline(Panel):
    """Achieved rate over arithmetic intensity under the roofs of a device.

    All intensities and rates of ``marks`` must be above 0, since the axes are logarithmic.  A roof
    without a label gets the labels "memory" and "arithmetic" on its two parts.
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
    """Return (middle, low, high), the order of the columns in a figure's data."""
    low, middle, high = limit
    return middle, low, high


@dataclass(frozen=True)
class BarSeries:
    """One bar or None per row; ``low`` and ``high`` are the ends of intervals."""

    label: str
    x: tuple[float | None, ...]
    series: int = 0
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Bars(Panel):
    """Named rows from top to bottom, with bars.

    Positive bars are stacked to the right of zero, negative bars to the left.  ``reference``: value
    with a vertical line.
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
    """One point or None per row; ``hollow`` points are rings.

    ``low``, ``high``: ends of the intervals; empty without intervals.  ``inner``: ends of a thicker
    line, such as quartiles within outer quantiles.  ``shift``: distance downwards, as a share of a
    row, so that series do not overlap.
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

    ``reference``: value with a vertical line.  ``log``: a logarithmic scale, on which a ratio and
    its inverse have equal distances from 1.  ``named``: false if the panel to the left has the same
    rows and prints their names.  ``x_top``: end of a linear scale from zero.  ``bands``: ranges of
    the x axis for comparison with all rows.  ``legend``: false if the caption names the series.
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
        return round(_TITLE_AND_X_AXIS + _DOT_ROW * len(self.names), 2)

    def rows(self) -> Iterator[DataRow]:
        """Yield each series row by row, and the bands."""
        for band in self.bands:
            yield band.label, None, None, None, self.x_label, band.middle, band.low, band.high
        for series in self.series:
            for name, *point in zip_longest(self.names, series.x, series.low, series.high):
                yield series.label, name, None, None, self.x_label, *point


@dataclass(frozen=True)
class Grid(Panel):
    """A letter or "" per row and column, such as a machine's verdicts on claims.

    The position of a letter in ``letters`` determines its colour.  A number may follow the letter.
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
        return round(_TITLE_AND_X_AXIS + _LETTER_ROW * len(self.names), 2)

    def rows(self) -> Iterator[DataRow]:
        """Yield the position of each letter in ``letters``, cell by cell."""
        for name, cells in zip(self.names, self.cells, strict=True):
            for heading, letter in zip(self.headings, cells, strict=True):
                if letter:
                    label = f"{self.x_label} {heading}: {letter}"
                    position = self.letters.index(letter[0])
                    yield label, name, None, None, "letter", position, None, None
