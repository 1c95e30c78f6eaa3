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

#: Columns of a figure's data, which has a row per point.  ``at`` is the x position of a point,
#: ``value`` its y position, and ``low`` and ``high`` are the ends of its interval.  In panels of
#: named rows ``value`` is the x position, and ``at`` is empty.
COLUMNS: Final = (
    "panel", "series", "name", "at_label", "at", "value_label", "value", "low", "high",
)  # fmt: skip
#: Cells of all columns except ``panel``; None for missing numbers.
DataRow: TypeAlias = tuple[str | float | None, ...]
#: A peak rate or a bandwidth with its interval, as (low, middle, high).
RoofLimit: TypeAlias = tuple[float, float, float]

#: Height (inches) of a named row of dots.
_DOT_ROW: Final = 0.155
#: Height (inches) of a row of letters in a grid.
_LETTER_ROW: Final = 0.19
#: Height (inches) of a panel's title, ticks and x label together.
_TITLE_AND_X_AXIS: Final = 0.75


class Panel(ABC):
    """A panel of a figure, with numbers in the units of its axis labels.

    Subclasses are frozen dataclasses of texts, numbers and tuples.
    """

    title: str

    @abstractmethod
    def data_rows(self) -> Iterator[DataRow]:
        """Yield the drawn numbers as rows of the figure's data."""


@dataclass(frozen=True)
class Drawing:
    """A figure of a paper, with its panels in ``rows`` rows.

    ``wide``: the figure spans both columns of a page.  ``height``: in inches.  ``same_axes``: all
    panels in a row have axes with the same limits.  ``place``: name of the function that describes
    the figure, which the figure's page prints.
    """

    panels: tuple[Panel, ...]
    wide: bool = False
    height: float = 2.3
    same_axes: bool = False
    rows: int = 1
    place: str = ""

    @property
    def card(self) -> Drawing:
        """A narrow figure with only the first panel, for the list of papers on the site."""
        height = self.height / self.rows
        panel = self.panels[0]
        if isinstance(panel, (Dots, Scaling)):
            panel = replace(panel, legend=True)  # another panel may have shown the legend
        return replace(self, panels=(panel,), wide=False, height=height, rows=1)

    def data(self) -> Iterator[DataRow]:
        """Yield the drawn numbers of all panels in ``COLUMNS``."""
        for number, panel in enumerate(self.panels, start=1):
            for row in panel.data_rows():
                yield panel.title or str(number), *row


@dataclass(frozen=True)
class Points:
    """A series of measured or reported points.

    ``low``, ``high``: ends of the intervals; empty without intervals.  ``style_number`` determines
    colour and marker.  ``hollow``: draw rings.  ``joined``: connect the points by lines.
    ``small``: draw small points that show only a distribution.  ``pale``: draw in grey.
    ``names``: labels beside the points; may be empty.  ``shift``: distance along the x axis by
    which the points are moved, so that series do not cover each other.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    style_number: int = 0
    hollow: bool = False
    joined: bool = False
    small: bool = False
    pale: bool = False
    names: tuple[str, ...] = ()
    shift: float = 0.0

    def data_rows(self, x_label: str, y_label: str) -> Iterator[DataRow]:
        """Yield one row of data per point, for a panel with these axis labels."""
        points = zip_longest(self.x, self.y, self.low, self.high, self.names)
        for x, y, low, high, name in points:
            yield self.label, name, x_label, x, y_label, y, low, high


@dataclass(frozen=True)
class Curve:
    """A curve of predicted values; ``dotted`` if it shows only a part of a prediction.

    ``style_number``: that of the points that the curve predicts, or None.  The curve has the colour
    of these points, and a panel with ``names_at_ends`` writes their name at the end of the curve.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    dotted: bool = False
    style_number: int | None = None


@dataclass(frozen=True)
class Band:
    """A range of the y axis with its middle, such as the interval of a measured peak rate."""

    label: str
    low: float
    middle: float
    high: float
    style_number: int = 0


@dataclass(frozen=True)
class Scaling(Panel):
    """A quantity against an ordered factor: points with intervals, predicted curves, and bands.

    ``names_at_ends``: write the name of each series at its right end instead of in a legend; hollow
    points that are not joined get no name.  ``legend``: false if the neighbouring panel has the
    legend.  ``y_top``, ``y_bottom``: limits of y.  ``inside_labels``: (text, x, y) of texts
    inside the panel.  A band or a curve whose label is such a text is not in the legend.
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
    names_at_ends: bool = False
    legend: bool = True
    y_top: float | None = None
    y_bottom: float | None = None
    inside_labels: tuple[tuple[str, float, float], ...] = ()

    def data_rows(self) -> Iterator[DataRow]:
        """Yield a row per point, per point of a curve, and per band."""
        x, y = self.x_label, self.y_label
        for points in self.points:
            yield from points.data_rows(x, y)
        for curve in self.curves:
            yield from Points(curve.label, curve.x, curve.y).data_rows(x, y)
        for band in self.bands:
            yield band.label, None, None, None, y, band.middle, band.low, band.high


@dataclass(frozen=True)
class DrawnRoof:
    """A roof: ``peak`` in the unit of the y axis, ``bandwidth`` in that unit per unit of x."""

    label: str
    peak: RoofLimit
    bandwidth: RoofLimit

    @property
    def ridge(self) -> float:
        """The intensity at which the bandwidth allows the peak rate."""
        _, peak, _ = self.peak
        _, bandwidth, _ = self.bandwidth
        return peak / bandwidth


@dataclass(frozen=True)
class Roofline(Panel):
    """Achieved rates against arithmetic intensity, under the roofs of a device.

    The axes are logarithmic, so that intensities and rates of ``marks`` must be above 0.  A roof
    without a label gets the label "memory" on its slope and "arithmetic" on its horizontal part.
    """

    x_label: str
    y_label: str
    roofs: tuple[DrawnRoof, ...]
    marks: tuple[Points, ...] = ()
    title: str = ""

    def data_rows(self) -> Iterator[DataRow]:
        """Yield the limits of the roofs, and the marks."""
        rate, slope = self.y_label, f"{self.y_label} / {self.x_label}"
        for roof in self.roofs:
            yield roof.label, "peak", None, None, rate, *_middle_first(roof.peak)
            yield roof.label, "bandwidth", None, None, slope, *_middle_first(roof.bandwidth)
        for marks in self.marks:
            yield from marks.data_rows(self.x_label, rate)


def _middle_first(limit: RoofLimit) -> RoofLimit:
    """Return (middle, low, high), the order of the columns in a figure's data."""
    low, middle, high = limit
    return middle, low, high


@dataclass(frozen=True)
class BarSeries:
    """A series of bars, with a length or None per row; ``low``, ``high``: ends of intervals."""

    label: str
    x: tuple[float | None, ...]
    style_number: int = 0
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Bars(Panel):
    """Named rows from top to bottom, with bars.

    Positive bars are stacked to the right of zero, negative bars to the left.  ``reference``: x
    position of a vertical line.
    """

    names: tuple[str, ...]
    series: tuple[BarSeries, ...]
    x_label: str
    title: str = ""
    reference: float | None = None

    def data_rows(self) -> Iterator[DataRow]:
        """Yield each series row by row."""
        for series in self.series:
            for name, *bar in zip_longest(self.names, series.x, series.low, series.high):
                yield series.label, name, None, None, self.x_label, *bar


@dataclass(frozen=True)
class DotSeries:
    """A series of points, with a value or None per row; ``hollow`` points are rings.

    ``low``, ``high``: ends of the intervals; empty without intervals.  ``shift``: distance by which
    the points are moved downwards, as a share of a row, so that series do not overlap.
    """

    label: str
    x: tuple[float | None, ...]
    style_number: int = 0
    hollow: bool = False
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    shift: float = 0.0


@dataclass(frozen=True)
class Dots(Panel):
    """Named rows from top to bottom, with points.

    ``reference``: x position of a vertical line.  ``log``: a logarithmic scale, on which a ratio
    and its inverse have equal distances from 1.  ``show_names``: false if the panel to the left has
    the same rows and prints their names.  ``x_top``: end of a linear scale from zero.
    ``legend``: false if the caption names the series.
    """

    names: tuple[str, ...]
    series: tuple[DotSeries, ...]
    x_label: str
    reference: float | None = None
    title: str = ""
    log: bool = False
    show_names: bool = True
    x_top: float | None = None
    legend: bool = True
    x_ticks: tuple[float, ...] = ()

    @property
    def height(self) -> float:
        """The height in inches for this number of rows."""
        return round(_TITLE_AND_X_AXIS + _DOT_ROW * len(self.names), 2)

    def data_rows(self) -> Iterator[DataRow]:
        """Yield each series row by row."""
        for series in self.series:
            for name, *point in zip_longest(self.names, series.x, series.low, series.high):
                yield series.label, name, None, None, self.x_label, *point


@dataclass(frozen=True)
class Grid(Panel):
    """A letter or "" per row and column, such as the verdict of a machine's data on a claim.

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

    def data_rows(self) -> Iterator[DataRow]:
        """Yield the position of each cell's letter in ``letters``; skip empty cells."""
        for name, cells in zip(self.names, self.cells, strict=True):
            for heading, letter in zip(self.headings, cells, strict=True):
                if letter:
                    label = f"{self.x_label} {heading}: {letter}"
                    position = self.letters.index(letter[0])
                    yield label, name, None, None, "letter", position, None, None
