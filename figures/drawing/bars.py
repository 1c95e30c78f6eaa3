"""Draws named rows with horizontal bars.

Every series has a colour and a hatching of its own, so that none needs its colour to be
seen.  A row that was not measured says so; it is never a bar of length 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from figures.bars import FILLED, LEGEND_COLUMNS, Bars, BarSeries
from figures.drawing import style
from figures.drawing.labels import legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What stands in a row without a bar.
NOT_MEASURED: Final = "not measured"


def draw(figure: Bars, axes: Axes) -> None:
    """Draw ``figure`` on ``axes``."""
    if figure.stacked:
        _draw_stacked(figure, axes)
    else:
        _draw_side_by_side(figure, axes)
    _mark_empty_rows(figure, axes)
    _label(figure, axes)


def _draw_stacked(figure: Bars, axes: Axes) -> None:
    ends = [[0.0, 0.0] for _ in figure.names]
    for series in figure.series:
        rows = [row for row, x in enumerate(series.x) if x is not None]
        lengths = [x for x in series.x if x is not None]
        starts = []
        for row, length in zip(rows, lengths, strict=True):
            side = length < 0
            starts.append(ends[row][side])
            ends[row][side] += length
        _bars(series, rows, lengths, starts, FILLED, axes)


def _draw_side_by_side(figure: Bars, axes: Axes) -> None:
    thickness = FILLED / len(figure.series)
    for index, series in enumerate(figure.series):
        offset = (index + 0.5) * thickness - FILLED / 2
        rows = [row + offset for row, x in enumerate(series.x) if x is not None]
        lengths = [x for x in series.x if x is not None]
        _bars(series, rows, lengths, [0.0] * len(rows), thickness, axes)


def _bars(
    series: BarSeries,
    rows: Sequence[float],
    lengths: Sequence[float],
    starts: Sequence[float],
    thickness: float,
    axes: Axes,
) -> None:
    axes.barh(
        rows,
        lengths,
        left=starts,
        height=thickness * 0.9,
        facecolor=style.colour(series.series),
        alpha=0.85,
        edgecolor="white",
        linewidth=0.3,
        hatch=style.HATCHES[series.series % len(style.HATCHES)],
        label=style.legend_label(series.label),
    )


def _mark_empty_rows(figure: Bars, axes: Axes) -> None:
    for row in range(len(figure.names)):
        if all(series.x[row] is None for series in figure.series):
            axes.annotate(
                NOT_MEASURED,
                xy=(0.0, row),
                xycoords=("axes fraction", "data"),
                xytext=(3.0, 0.0),
                textcoords="offset points",
                va="center",
                fontsize=style.SMALL,
                color=style.THEORY,
            )


def _label(figure: Bars, axes: Axes) -> None:
    if figure.reference is not None:
        axes.axvline(figure.reference, color=style.THEORY, linewidth=0.8, dashes=(4, 2))
    axes.set_yticks(range(len(figure.names)), labels=list(figure.names))
    axes.set_ylim(len(figure.names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(figure.x_label)
    if figure.title:
        axes.set_title(figure.title, loc="left")
    if len(figure.series) > 1:
        legend_above(axes, LEGEND_COLUMNS)
