"""Named rows with a few points each on one scale, beside a line of reference (a dot plot).

After Cleveland, The Elements of Graphing Data, 1994: positions along one scale are compared more
exactly than lengths or areas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW, _REST = 0.155, 0.75


@dataclass(frozen=True)
class DotSeries:
    """One point a row; None where a row has none.  ``hollow`` points are drawn as rings."""

    label: str
    x: tuple[float | None, ...]
    series: int = 0
    hollow: bool = False


@dataclass(frozen=True)
class Dots:
    """A finished description: the names of the rows from top to bottom, and their points."""

    names: tuple[str, ...]
    series: tuple[DotSeries, ...]
    x_label: str
    reference: float | None = None
    title: str = ""

    @property
    def height(self) -> float:
        """The height in inches that leaves every row its room."""
        return round(_REST + _ROW * len(self.names), 2)


#: Rings stand around filled points, so that both are seen where they agree.
_RING: Final = 6.0


def draw(figure: Dots, axes: Axes) -> None:
    """Draw ``figure`` on ``axes``."""
    if figure.reference is not None:
        axes.axvline(figure.reference, color=style.THEORY, linewidth=0.8, dashes=(4, 2))
    for series in figure.series:
        _draw_series(series, axes)
    axes.set_yticks(range(len(figure.names)), labels=list(figure.names))
    axes.set_ylim(len(figure.names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(figure.x_label)
    axes.set_title(figure.title, loc="left")
    if not any(x is not None for series in figure.series for x in series.x):
        axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes)
    if len(figure.series) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, borderaxespad=0.2)


def _draw_series(series: DotSeries, axes: Axes) -> None:
    colour = style.colour(series.series)
    points = [(x, row) for row, x in enumerate(series.x) if x is not None]
    axes.plot(
        [x for x, _ in points],
        [row for _, row in points],
        linestyle="none",
        marker=style.marker(series.series),
        color=colour,
        markerfacecolor="none" if series.hollow else colour,
        markersize=_RING if series.hollow else None,
        markeredgewidth=0.9,
        label=series.label,
    )
