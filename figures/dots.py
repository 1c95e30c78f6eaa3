"""Draw dot plots: named rows with points on a common scale, and a reference line.

Positions on a common scale are compared more exactly than lengths or areas (Cleveland, The Elements
of Graphing Data, 1994).
"""

from typing import Final

from matplotlib.axes import Axes

from figures import style
from figures.labels import DrawnSeries, legend_above, name_rows, plain_log_ticks, say_not_measured
from figures.panels import Dots, DotSeries

_INTERVAL_LINE_WIDTH_PT: Final = 1.0
_LEGEND_COLUMNS: Final = 3


def draw(panel: Dots, axes: Axes) -> DrawnSeries:
    """Draw the reference line, the points, and the names of the rows.

    Returns an empty list, because pages show values only for ``Points`` and curves.
    """
    if panel.reference is not None:
        axes.axvline(panel.reference, color=style.THEORY, linewidth=0.8, dashes=(4, 2))
    if panel.log:
        axes.set_xscale("log")
    for series in panel.series:
        _draw_series(series, axes)
    if not any(_points(series) for series in panel.series):
        say_not_measured(axes)
    name_rows(panel.names if panel.show_names else [""] * len(panel.names), axes)
    axes.set_ylim(len(panel.names) - 0.4, -0.6)
    if panel.x_top is not None:
        axes.set_xlim(-panel.x_top / 25, panel.x_top)  # below 0, so that a marker at 0 is whole
    axes.set_xlabel(panel.x_label)
    return []


def finish(panel: Dots, axes: Axes) -> None:
    """Draw the ticks and the title, and a legend if at least two series have labels."""
    if panel.log:
        plain_log_ticks(axes.xaxis)
    if panel.x_ticks:
        axes.set_xticks(panel.x_ticks)
    if panel.legend and sum(bool(series.label) for series in panel.series) > 1:
        title = panel.title or None
        legend_above(axes, _LEGEND_COLUMNS, title=title, title_fontsize="medium", alignment="left")
    else:
        axes.set_title(panel.title, loc="left")


def _points(series: DotSeries) -> list[tuple[float, float]]:
    """List the points of a series as (value, vertical position)."""
    return [(x, row + series.shift) for row, x in enumerate(series.x) if x is not None]


def _draw_series(series: DotSeries, axes: Axes) -> None:
    """Draw the intervals of a series, then the points."""
    colour = style.colour(series.style_number)
    for row, (low, high) in enumerate(zip(series.low, series.high, strict=True)):
        if low is not None and high is not None:
            y = row + series.shift
            axes.plot([low, high], [y, y], color=colour, linewidth=_INTERVAL_LINE_WIDTH_PT)
    points = _points(series)
    axes.plot(
        [x for x, _ in points],
        [y for _, y in points],
        linestyle="none",
        marker=style.marker(series.style_number),
        color=colour,
        markerfacecolor="none" if series.hollow else colour,
        markersize=style.RING_PT if series.hollow else None,
        markeredgewidth=0.9,
        label=style.legend_label(series.label),
    )
