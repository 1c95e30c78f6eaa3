"""What stands in a figure: its panels, in numbers and words, and its size.

A kind of figure is a frozen dataclass here, and a module of its own that draws it.  Studies know
these descriptions alone, so that no change of how a figure looks computes a number anew.
"""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, Literal, TypeAlias

#: What the columns of a figure's data hold: a point of ``series`` that has a name or lies ``at`` a
#: place, with its value and the ends of its interval; None where there is none.
COLUMNS: Final = (
    "panel", "series", "name", "at_label", "at", "value_label", "value", "low", "high",
)  # fmt: skip
#: What stands in all columns but the first.
Row: TypeAlias = tuple[str | float | None, ...]
#: A limit between the ends of its interval: low, middle, high.
Ceiling: TypeAlias = tuple[float, float, float]

#: Inches: a row of dots, and all of their panel that is not rows.
_DOT_ROW, _DOT_REST = 0.155, 0.75
#: Letters on one line of a bar's name in a waterfall.
_NAME_LETTERS: Final = 22
#: Inches of a waterfall: a row at least, a line of a name in the longest row, the title, the axis
#: below.
_BAR_ROW, _NAME_LINE, _TITLE, _BELOW = 0.2, 0.13, 0.2, 0.62


class Panel(ABC):
    """One panel of a figure: a finished description, in the units of its labels.

    Subclasses are frozen dataclasses of texts, numbers and tuples.
    """

    title: str

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """All that is drawn in numbers."""


@dataclass(frozen=True)
class Drawing:
    """A figure of a paper: its panels in ``rows``, side by side, its width and height in inches.

    ``same_axes`` gives the panels of a row the range that holds those of each, for panels that are
    compared.  ``place`` is the function that describes the figure, for readers of its page.
    """

    panels: tuple[Panel, ...]
    wide: bool = False
    height: float = 2.3
    same_axes: bool = False
    rows: int = 1
    place: str = ""

    def data(self) -> Iterator[Row]:
        """All that is drawn in numbers, panel by panel, in ``COLUMNS``."""
        for number, panel in enumerate(self.panels, start=1):
            for row in panel.rows():
                yield panel.title or str(number), *row


# ------------------------------------------------------------------------------- points in a plane


@dataclass(frozen=True)
class Points:
    """Measured or reported points; ``joined`` only where the factor is ordered and complete.

    ``low`` and ``high`` are the ends of the intervals, empty where there are none.  ``names`` stand
    beside the points; an empty one is not drawn.  Of ``many`` none is meant by itself, so that they
    are small.
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

    def rows(self, x_label: str, y_label: str) -> Iterator[Row]:
        """The points for the data of a panel with these labels."""
        found = zip_longest(self.x, self.y, self.low, self.high, self.names)
        for x, y, low, high, name in found:
            yield self.label, name, x_label, x, y_label, y, low, high


@dataclass(frozen=True)
class Curve:
    """A line of theory, which was computed and not measured; dotted for a ``part`` of it."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    part: bool = False


@dataclass(frozen=True)
class Band:
    """A horizontal line with its interval over the whole width, such as a measured ceiling."""

    label: str
    low: float
    middle: float
    high: float
    series: int = 0


@dataclass(frozen=True)
class Scaling(Panel):
    """A quantity over an ordered factor: points with intervals, lines of theory, bands of ceilings.

    ``direct`` says that the names of points stand at the right ends of their lines, and in no
    legend.  ``y_top`` and ``y_bottom`` are the ends of the axis, where the data do not set them.
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

    def rows(self) -> Iterator[Row]:
        """Points, curves and bands."""
        x, y = self.x_label, self.y_label
        for points in self.points:
            yield from points.rows(x, y)
        for curve in self.curves:
            yield from Points(curve.label, curve.x, curve.y).rows(x, y)
        for band in self.bands:
            yield band.label, None, None, None, y, band.middle, band.low, band.high


@dataclass(frozen=True)
class RoofLine:
    """``peak`` in the unit of the rates; ``bandwidth`` such that it times an intensity is one."""

    label: str
    peak: Ceiling
    bandwidth: Ceiling

    @property
    def ridge(self) -> float:
        """The intensity at which both limits meet."""
        return self.peak[1] / self.bandwidth[1]


@dataclass(frozen=True)
class Roofline(Panel):
    """Achieved rate over arithmetic intensity under the roofs of a device.

    All intensities and rates of ``marks`` are above 0: what does no multiply-adds has no place
    here.  ``caches`` are the bandwidths of what lies in one cache, by the names on their lines;
    each leads up to the flat part of the first roof, whose slope is then labelled as memory's.
    """

    x_label: str
    y_label: str
    roofs: tuple[RoofLine, ...]
    marks: tuple[Points, ...] = ()
    title: str = ""
    caches: tuple[tuple[str, Ceiling], ...] = ()

    def rows(self) -> Iterator[Row]:
        """The limits of the roofs, the slopes of caches, and the marks."""
        rate, slope = self.y_label, f"{self.y_label} / {self.x_label}"
        for roof in self.roofs:
            yield roof.label, "peak", None, None, rate, *_middle_first(roof.peak)
            yield roof.label, "bandwidth", None, None, slope, *_middle_first(roof.bandwidth)
        for name, bandwidth in self.caches:
            yield name, "bandwidth", None, None, slope, *_middle_first(bandwidth)
        for marks in self.marks:
            yield from marks.rows(self.x_label, rate)


def _middle_first(ceiling: Ceiling) -> Ceiling:
    low, middle, high = ceiling
    return middle, low, high


# ------------------------------------------------------------------------------------- named rows


@dataclass(frozen=True)
class BarSeries:
    """One bar a row; None where a row has none."""

    label: str
    x: tuple[float | None, ...]
    series: int = 0


@dataclass(frozen=True)
class Bars(Panel):
    """The names of the rows from top to bottom, and their bars.

    The bars of a row start at zero: those above zero go to the right, those below to the left.
    """

    names: tuple[str, ...]
    series: tuple[BarSeries, ...]
    x_label: str
    title: str = ""

    def rows(self) -> Iterator[Row]:
        """Each series row by row."""
        for series in self.series:
            for name, value in zip(self.names, series.x, strict=True):
                yield series.label, name, None, None, self.x_label, value, None, None


@dataclass(frozen=True)
class DotSeries:
    """A point a row, or None where a row has none; ``hollow`` ones are rings.

    ``low`` and ``high`` are the ends of the points' intervals, none for a series without; ``inner``
    are those of a thicker line, such as quartiles within outer quantiles.  ``shift`` sets a series
    lower by a part of a row, where lines of two would cover each other.
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
    """The names of the rows from top to bottom, and their points.

    Ratios on a ``log`` scale are as far from one on either side.  A panel with the rows of the one
    at its left need not be ``named`` again.
    """

    names: tuple[str, ...]
    series: tuple[DotSeries, ...]
    x_label: str
    reference: float | None = None
    title: str = ""
    log: bool = False
    named: bool = True

    @property
    def height(self) -> float:
        """The height in inches that leaves every row its room."""
        return round(_DOT_REST + _DOT_ROW * (len(self.names)), 2)

    def rows(self) -> Iterator[Row]:
        """Each series row by row."""
        for series in self.series:
            for name, *found in zip_longest(self.names, series.x, series.low, series.high):
                yield series.label, name, None, None, self.x_label, *found


@dataclass(frozen=True)
class Bar:
    """A named amount in the unit of its waterfall."""

    name: str
    amount: int

    @property
    def lines(self) -> list[str]:
        """The name in lines that leave the bars their room."""
        return textwrap.wrap(self.name, _NAME_LETTERS, break_on_hyphens=False)


@dataclass(frozen=True)
class Waterfall(Panel):
    """From theory to measurement: from ``start`` and ``terms`` to what was ``measured``.

    ``measured`` is None where nothing was measured, and the figure says so.  ``residual`` names
    what is left; without a name it has no row.  All bars and numbers are in ``unit``, of which
    ``per_label`` are one unit of the axis' label.
    """

    start: Bar
    terms: tuple[Bar, ...]
    measured: Bar | None
    residual: str
    unit: str
    x_label: str
    per_label: float = 1.0
    title: str = ""

    @property
    def total(self) -> Bar:
        """What theory gives with all terms."""
        return Bar("Sum", sum((term.amount for term in self.terms), self.start.amount))

    @property
    def left(self) -> Bar | None:
        """The residual, which leads from the sum to the measurement."""
        if self.measured is None or not self.residual:
            return None
        return Bar(self.residual, self.measured.amount - self.total.amount)

    @property
    def bars(self) -> list[Bar]:
        """The bars from top to bottom."""
        bars = (self.start, *self.terms, self.total, self.measured, self.left)
        return [*filter(None, bars)]

    @property
    def height(self) -> float:
        """The height in inches that leaves every row its room."""
        rows = len(self.bars) + (self.measured is None)
        lines = max(len(bar.lines) for bar in self.bars)
        title = _TITLE if self.title else 0.0
        return round(_BELOW + title + rows * max(_BAR_ROW, _NAME_LINE * lines), 2)

    def rows(self) -> Iterator[Row]:
        """The bars."""
        for bar in self.bars:
            yield "", bar.name, None, None, self.unit, bar.amount, None, None
