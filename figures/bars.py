"""Named rows with horizontal bars, one after another as a sum.

Every series has a colour and a hatching of its own, so that none needs its colour to be seen.  A
row that was not measured says so; it is never a bar of length 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from figures import style
from figures.canvas import Drawn, Panel, Row
from figures.labels import legend_above, name_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The part of a row that its bars fill, less the gap to the next row.
_FILLED: Final = 0.78 * 0.9
_LEGEND_COLUMNS: Final = 3


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

    def draw(self, axes: Axes) -> Drawn:
        """Each series from where the ones before it end."""
        ends = [[0.0, 0.0] for _ in self.names]
        for series in self.series:
            rows = [row for row, x in enumerate(series.x) if x is not None]
            lengths = [x for x in series.x if x is not None]
            starts = [ends[row][length < 0] for row, length in zip(rows, lengths, strict=True)]
            for row, length in zip(rows, lengths, strict=True):
                ends[row][length < 0] += length
            axes.barh(
                rows,
                lengths,
                left=starts,
                height=_FILLED,
                facecolor=style.colour(series.series),
                alpha=0.85,
                edgecolor="white",
                linewidth=0.3,
                hatch=style.hatching(series.series),
                label=style.legend_label(series.label),
            )
        for row in range(len(self.names)):
            if all(series.x[row] is None for series in self.series):
                self._say_not_measured(row, axes)
        name_rows(self.names, axes)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(self.x_label)
        axes.set_title(self.title, loc="left")
        if len(self.series) > 1:
            legend_above(axes, _LEGEND_COLUMNS)
        return []

    def _say_not_measured(self, row: int, axes: Axes) -> None:
        axes.annotate(
            "not measured",
            xy=(0.0, row),
            xycoords=("axes fraction", "data"),
            xytext=(3.0, 0.0),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL,
            color=style.THEORY,
        )

    def rows(self) -> Iterator[Row]:
        """Each series row by row."""
        for series in self.series:
            for name, value in zip(self.names, series.x, strict=True):
                yield series.label, name, None, None, self.x_label, value, None, None
