"""Draw a quantity over an ordered factor: points, lines of theory, and bands of peaks."""

from typing import Any, Final

from matplotlib.axes import Axes

from figures import style
from figures.labels import Drawn, fits, label_ends, legend_above, plain_log_ticks, say_not_measured
from figures.panels import Scaling
from figures.points import draw_points

#: Limit on the labelled ticks of an axis; with more levels every second or third has a label.
_MOST_TICKS: Final = 24
#: Columns of a legend that fits the panel.
_COLUMNS: Final = 2
#: Length of dashes and gaps in lines with the colour of points; dashes of two such lines in one
#: place alternate.
_DASH: Final = 3
#: Height of a line of the legend, as a share of the axis.
_LEGEND_LINE: Final = 0.13


def draw(panel: Scaling, axes: Axes) -> Drawn:
    """Draw bands, curves and points."""
    regions = {name for name, *_ in panel.regions}
    for band in panel.bands:
        colour = style.colour(band.series)
        label = style.legend_label("" if panel.direct or band.label in regions else band.label)
        axes.axhspan(band.low, band.high, color=colour, alpha=0.25, linewidth=0, label=label)
        axes.axhline(band.middle, color=colour, linewidth=0.7)
    curves: Drawn = []
    for curve in panel.curves:
        label = style.legend_label("" if curve.label in regions else curve.label)
        dashes = (1.5, 1.5) if curve.part else (4, 2)
        line_style: dict[str, Any] = {"color": style.THEORY, "dashes": dashes, "zorder": 1.5}
        if curve.series is not None:
            alternating = curve.series * _DASH, (_DASH, _DASH)
            line_style = {"color": style.colour(curve.series), "ls": alternating, "zorder": 1.5}
        curves.append((curve, axes.plot(curve.x, curve.y, label=label, **line_style)))
    points: Drawn = []
    for series in panel.points:
        label = "" if panel.direct else series.label
        points.append((series, draw_points(series, axes, label=label)))
    for name, x, y in panel.regions:
        axes.text(x, y, name, color=style.THEORY, style="italic")
    if not (points or curves):
        say_not_measured(axes)
    _scale(panel, axes)
    return [*points, *curves]


def _scale(panel: Scaling, axes: Axes) -> None:
    """Set labels, scales, ticks and limits of the axes."""
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_xscale(panel.x_scale, **({"base": 2} if panel.x_scale == "log" else {}))
    axes.set_yscale(panel.y_scale)
    if panel.x_ticks:
        ticks = panel.x_ticks[:: -(-len(panel.x_ticks) // _MOST_TICKS)]
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
    if panel.direct:
        named = [line for line in panel.points if line.label and (line.joined or not line.hollow)]
        heights = {curve.series: curve.y[-1] for curve in panel.curves}
        ends = [(line.label, heights.get(line.series, line.y[-1]), line.series) for line in named]
        regions = {name for name, *_ in panel.regions}
        bands = [band for band in panel.bands if band.label not in regions]
        ends += [(band.label, band.middle, band.series) for band in bands]
        label_ends(ends, axes)


def _name_series(panel: Scaling, axes: Axes) -> None:
    """Draw the title, and a legend if there is more than one entry.

    A legend above the axes covers no points and includes the title.  In a narrow panel the legend
    is inside the axes, where it covers least.
    """
    entries = len(axes.get_legend_handles_labels()[1]) if panel.legend else 0
    if entries > 1 and panel.bands and panel.y_from_zero:
        _legend_inside(panel, axes, entries)
    elif entries > 1:
        heading = {"title": panel.title or None, "title_fontsize": "medium", "alignment": "left"}
        if fits(legend := legend_above(axes, _COLUMNS, _COLUMNS, **heading), axes):
            return
        legend.remove()
        axes.legend(loc="best", borderaxespad=0.3)
    if panel.title:
        axes.set_title(panel.title, loc="left")


def _legend_inside(panel: Scaling, axes: Axes, entries: int) -> None:
    """Draw the legend inside the axes, above the band, and extend the axis for it."""
    for columns in (_COLUMNS, 1):
        legend = axes.legend(loc="upper center", borderaxespad=0.2, ncols=columns)
        if fits(legend, axes):
            break
    lines = -(-entries // columns)
    axes.set_ylim(top=axes.get_ylim()[1] * (1 + _LEGEND_LINE * lines))
