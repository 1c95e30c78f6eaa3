"""Named rows with a few points each on one scale, beside a line of reference (a dot plot).

After Cleveland, The Elements of Graphing Data, 1994: positions along one scale are compared more
exactly than lengths or areas.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from figures import style
from figures.canvas import Drawn, Panel, Row
from figures.labels import legend_above, name_rows, say_not_measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Inches: a row, and all that is not rows.
_ROW, _REST = 0.155, 0.75
#: The widths of an interval and of the inner part of a distribution (pt).
_THIN, _THICK = 1.0, 2.6
_COLUMNS: Final = 3


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

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """All points with the numbers of their rows."""
        return tuple((x, row + self.shift) for row, x in enumerate(self.x) if x is not None)

    def draw(self, axes: Axes) -> None:
        """The intervals, and the points over them."""
        colour = style.colour(self.series)
        outer = zip(self.low, self.high, strict=True)
        for width, lines in ((_THIN, outer), (_THICK, self.inner)):
            for row, ends in enumerate(lines):
                low, high = ends or (None, None)
                if low is not None and high is not None:
                    place = [row + self.shift] * 2
                    axes.plot([low, high], place, color=colour, linewidth=width, label="_")
        axes.plot(
            [x for x, _ in self.points],
            [row for _, row in self.points],
            linestyle="none",
            marker=style.marker(self.series),
            color=colour,
            markerfacecolor="white" if self.inner else "none" if self.hollow else colour,
            markersize=style.RING if self.hollow else None,
            markeredgewidth=0.9,
            label=style.legend_label(self.label),
        )


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
        return round(_REST + _ROW * (len(self.names)), 2)

    def draw(self, axes: Axes) -> Drawn:
        """The line of reference, the points, and the names of the rows."""
        if self.reference is not None:
            axes.axvline(self.reference, color=style.THEORY, linewidth=0.8, dashes=(4, 2))
        if self.log:
            axes.set_xscale("log")
        for series in self.series:
            series.draw(axes)
        if not any(series.points for series in self.series):
            say_not_measured(axes)
        name_rows(self.names if self.named else [""] * len(self.names), axes)
        axes.set_ylim(len(self.names) - 0.4, -0.6)
        axes.set_xlabel(self.x_label)
        axes.set_title(self.title, loc="left")
        return []

    def finish(self, axes: Axes) -> None:
        """The ticks and the legend."""
        if self.log:
            style.plain_log_ticks(axes.xaxis)
        if sum(bool(series.label) for series in self.series) > 1:
            legend_above(axes, _COLUMNS)

    def rows(self) -> Iterator[Row]:
        """Each series row by row."""
        for series in self.series:
            for name, *found in zip_longest(self.names, series.x, series.low, series.high):
                yield series.label, name, None, None, self.x_label, *found
