"""Draw dot plots: named rows with points on a common scale, and a reference line.

Positions on a common scale are compared more exactly than lengths or areas (Cleveland, The Elements
of Graphing Data, 1994).
"""

from typing import Final

from matplotlib.axes import Axes

from figures import style
from figures.labels import Drawn, legend_above, name_rows, plain_log_ticks, say_not_measured
from figures.panels import Dots, DotSeries

#: Line widths (pt) of an interval, and of the inner part of a distribution.
_THIN, _THICK = 1.0, 2.6
_COLUMNS: Final = 3
#: Opacity of a band.
_BAND: Final = 0.2


def draw(panel: Dots, axes: Axes) -> Drawn:
    """Draw the bands, the reference line, the points, and the names of the rows."""
    for band in panel.bands:
        axes.axvspan(band.low, band.high, color=style.colour(band.series), alpha=_BAND, linewidth=0)
    if panel.reference is not None:
        axes.axvline(panel.reference, color=style.THEORY, linewidth=0.8, dashes=(4, 2))
    if panel.log:
        axes.set_xscale("log")
    for series in panel.series:
        _draw_series(series, axes)
    if not any(map(_points, panel.series)):
        say_not_measured(axes)
    name_rows(panel.names if panel.named else [""] * len(panel.names), axes)
    axes.set_ylim(len(panel.names) - 0.4, -0.6)
    if panel.x_top is not None:
        axes.set_xlim(-panel.x_top / 25, panel.x_top)  # so that a marker at 0 is not clipped
    axes.set_xlabel(panel.x_label)
    axes.set_title(panel.title, loc="left")
    return []


def finish(panel: Dots, axes: Axes) -> None:
    """Draw the ticks and the legend."""
    if panel.log:
        plain_log_ticks(axes.xaxis)
    if panel.x_ticks:
        axes.set_xticks(panel.x_ticks)
    if panel.legend and sum(bool(series.label) for series in panel.series) > 1:
        legend_above(axes, _COLUMNS)


def _points(series: DotSeries) -> list[tuple[float, float]]:
    """List all points with their vertical positions."""
    return [(x, row + series.shift) for row, x in enumerate(series.x) if x is not None]


def _draw_series(series: DotSeries, axes: Axes) -> None:
    """Draw the intervals of a series, then the points."""
    colour = style.colour(series.series)
    points = _points(series)
    outer = zip(series.low, series.high, strict=True)
    for width, lines in ((_THIN, outer), (_THICK, series.inner)):
        for row, ends in enumerate(lines):
            low, high = ends or (None, None)
            if low is not None and high is not None:
                place = [row + series.shift] * 2
                axes.plot([low, high], place, color=colour, linewidth=width, label="_")
    axes.plot(
        [x for x, _ in points],
        [row for _, row in points],
        linestyle="none",
        marker=style.marker(series.series),
        color=colour,
        markerfacecolor="white" if series.inner else "none" if series.hollow else colour,
        markersize=style.RING if series.hollow else None,
        markeredgewidth=0.9,
        label=style.legend_label(series.label),
    )
