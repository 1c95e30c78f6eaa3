"""Draw a quantity against an ordered factor: measured points, predicted curves, and bands."""

import math
from typing import Any, Final

from matplotlib.axes import Axes

from figures import style
from figures.labels import (
    DrawnSeries,
    label_ends,
    legend_above,
    legend_fits,
    plain_log_ticks,
    say_not_measured,
)
from figures.panels import Scaling
from figures.points import draw_points

#: Largest number of ticks on an axis; with more levels, only every second or third has a tick.
_MOST_TICKS: Final = 24
_LEGEND_COLUMNS: Final = 2
#: Length (in line widths) of dashes and gaps in curves that have the colour of points.  Dashes of
#: style number 1 fill the gaps of number 0, so that both curves are visible where they coincide.
_DASH: Final = 3
#: Height of a line of the legend, as a share of the axis.
_LEGEND_LINE_SHARE: Final = 0.13


def draw(panel: Scaling, axes: Axes) -> DrawnSeries:
    """Draw bands, curves, points and texts; return points and curves with their artists."""
    inside_texts = {text for text, *_ in panel.inside_labels}
    for band in panel.bands:
        colour = style.colour(band.style_number)
        has_other_name = panel.names_at_ends or band.label in inside_texts
        label = style.legend_label("" if has_other_name else band.label)
        axes.axhspan(band.low, band.high, color=colour, alpha=0.25, linewidth=0, label=label)
        axes.axhline(band.middle, color=colour, linewidth=0.7)
    curves: DrawnSeries = []
    for curve in panel.curves:
        label = style.legend_label("" if curve.label in inside_texts else curve.label)
        dashes = (1.5, 1.5) if curve.dotted else (4, 2)
        line_style: dict[str, Any] = {"color": style.THEORY, "dashes": dashes, "zorder": 1.5}
        if curve.style_number is not None:
            offset = curve.style_number * _DASH
            line_style = {
                "color": style.colour(curve.style_number),
                "linestyle": (offset, (_DASH, _DASH)),
                "zorder": 1.5,
            }
        curves.append((curve, axes.plot(curve.x, curve.y, label=label, **line_style)))
    points: DrawnSeries = []
    for series in panel.points:
        label = "" if panel.names_at_ends else series.label
        points.append((series, draw_points(series, axes, label=label)))
    for text, x, y in panel.inside_labels:
        axes.text(x, y, text, color=style.THEORY, style="italic")
    if not (points or curves):
        say_not_measured(axes)
    _set_axes(panel, axes)
    return [*points, *curves]


def _set_axes(panel: Scaling, axes: Axes) -> None:
    """Set labels, scales, ticks and limits of the axes."""
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.x_scale == "log":
        axes.set_xscale("log", base=2)
    else:
        axes.set_xscale("linear")
    axes.set_yscale(panel.y_scale)
    if panel.x_ticks:
        ticks = panel.x_ticks[:: math.ceil(len(panel.x_ticks) / _MOST_TICKS)]
        axes.set_xticks(ticks, labels=[f"{tick:,.10g}" for tick in ticks])
    if panel.y_from_zero:
        axes.set_ylim(bottom=0)
    if panel.y_top is not None:
        axes.set_ylim(bottom=panel.y_bottom, top=panel.y_top)


def finish(panel: Scaling, axes: Axes) -> None:
    """Draw the ticks, and the names of the series."""
    if panel.y_scale == "log":
        plain_log_ticks(axes.yaxis)
    _name_series(panel, axes)
    if panel.names_at_ends:
        label_ends(_right_ends(panel), axes)


def _right_ends(panel: Scaling) -> list[tuple[str, float, int]]:
    """List (name, last value, style number) of the series and bands to name at the right edge.

    A series with a predicted curve is named at the end of the curve.
    """
    ends: list[tuple[str, float, int]] = []
    curve_ends = {curve.style_number: curve.y[-1] for curve in panel.curves}
    for points in panel.points:
        if points.label and (points.joined or not points.hollow):
            last_value = curve_ends.get(points.style_number, points.y[-1])
            ends.append((points.label, last_value, points.style_number))
    inside_texts = {text for text, *_ in panel.inside_labels}
    for band in panel.bands:
        if band.label not in inside_texts:
            ends.append((band.label, band.middle, band.style_number))
    return ends


def _name_series(panel: Scaling, axes: Axes) -> None:
    """Draw the title, and a legend if it has more than one entry.

    The legend is above the axes and includes the title.  If the panel is too narrow, or has bands
    and a y axis from zero, the legend is inside the axes, and the title is above the axes.
    """
    entry_count = len(axes.get_legend_handles_labels()[1]) if panel.legend else 0
    if entry_count > 1 and panel.bands and panel.y_from_zero:
        _draw_legend_inside(axes, entry_count)
    elif entry_count > 1:
        title = {"title": panel.title or None, "title_fontsize": "medium", "alignment": "left"}
        legend = legend_above(axes, _LEGEND_COLUMNS, fewest=_LEGEND_COLUMNS, **title)
        if legend_fits(legend, axes):
            return
        legend.remove()
        axes.legend(loc="best", borderaxespad=0.3)  # where it covers the fewest points
    if panel.title:
        axes.set_title(panel.title, loc="left")


def _draw_legend_inside(axes: Axes, entry_count: int) -> None:
    """Draw the legend at the top of the axes, and extend the y axis by the legend's height."""
    for columns in (_LEGEND_COLUMNS, 1):
        legend = axes.legend(loc="upper center", borderaxespad=0.2, ncols=columns)
        if legend_fits(legend, axes):
            break
    line_count = math.ceil(entry_count / columns)
    _, top = axes.get_ylim()
    axes.set_ylim(top=top * (1 + _LEGEND_LINE_SHARE * line_count))
