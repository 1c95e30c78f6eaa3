"""Draws named rows with a few points each on one scale, beside a line of reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from figures.dots import Dots, DotSeries
from figures.drawing import style
from figures.drawing.labels import legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Rings stand around filled points, so that both are seen where they agree.
_RING: Final = 6.0
#: The widths of an interval and of the inner part of a distribution (pt).
_THIN, _THICK = 1.0, 2.6
_COLUMNS: Final = 3
#: Between the axes and the title, where names of lines stand (pt).
_ABOVE: Final = 11.0
#: Of many points in one row, so that their density shows.
_FAINT: Final = 0.5


def draw(figure: Dots, axes: Axes) -> None:
    """Draw ``figure`` on ``axes``."""
    if figure.reference is not None:
        axes.axvline(figure.reference, color=style.THEORY, linewidth=0.8, dashes=(4, 2))
    if figure.log:
        axes.set_xscale("log")
    for name, value in figure.lines:
        axes.axvline(value, color=style.THEORY, linewidth=0.9, linestyle=":")
        place = (value, 1.0)
        axes.annotate(
            name,
            place,
            (0, 1.5),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            fontsize=style.SMALL,
            ha="center",
            color=style.THEORY,
        )
    for series in figure.series:
        _draw_intervals(series, axes)
        _draw_series(series, axes)
    if figure.log:
        style.plain_log_ticks(axes.xaxis)
    names = figure.names if figure.named else [""] * len(figure.names)
    axes.set_yticks(range(len(figure.names)), labels=list(names))
    axes.set_ylim(len(figure.names) - 0.4 + figure.legend_below, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(figure.x_label)
    axes.set_title(figure.title, loc="left", pad=_ABOVE if figure.lines else None)
    if not any(series.points for series in figure.series):
        axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes)
    labelled = sum(bool(series.label) for series in figure.series)
    if figure.legend_below:
        axes.legend(loc="lower right", borderaxespad=0.2, ncols=labelled, columnspacing=1.0)
    elif labelled > 1:
        legend_above(axes, _COLUMNS)


def _draw_series(series: DotSeries, axes: Axes) -> None:
    colour = style.MUTED if series.muted else style.colour(series.series)
    axes.plot(
        [x for x, _ in series.points],
        [row for _, row in series.points],
        linestyle="none",
        marker=style.marker(series.series),
        color=colour,
        markerfacecolor="white" if series.inner else "none" if series.hollow else colour,
        markersize=_RING if series.hollow else None,
        markeredgewidth=0.0 if series.muted else 0.9,
        alpha=_FAINT if series.muted else None,
        label=style.legend_label(series.label),
    )


def _draw_intervals(series: DotSeries, axes: Axes) -> None:
    colour = style.colour(series.series)
    outer = zip(series.low, series.high, strict=True)
    for width, lines in ((_THIN, outer), (_THICK, series.inner)):
        for row, ends in enumerate(lines):
            low, high = ends or (None, None)
            if low is not None and high is not None:
                place = [row + series.shift] * 2
                axes.plot([low, high], place, color=colour, linewidth=width, label="_")
