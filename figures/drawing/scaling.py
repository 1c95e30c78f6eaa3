"""Draws a quantity over an ordered factor."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from figures.drawing import style
from figures.drawing.labels import fits, label_ends, legend_above
from figures.scaling import Band, Curve, Points, Scaling

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES: Final = {"theory": (4, 2), "part": (1.5, 1.5), "fit": (1, 1)}
#: Rings stand around filled points, so that both are seen where they agree.
_RING: Final = 5.5
_SMALL: Final = 2.2
#: The share of the axis that one line of a legend needs.
_ROOM_A_LINE: Final = 0.13
#: Labels that an axis has room for; of more levels every second or third has one.
_MOST_TICKS: Final = 24
#: Columns of a legend, where there is room for them.
_COLUMNS: Final = 2


def draw(figure: Scaling, axes: Axes) -> None:
    """Draw ``figure`` on ``axes``."""
    for band in figure.bands:
        _draw_band(replace(band, label="") if figure.direct else band, axes)
    for curve in figure.curves:
        _draw_curve(curve, axes)
    for points in figure.points:
        _draw_points(replace(points, label="") if figure.direct else points, axes)
    if not (figure.points or figure.curves):
        axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes)
    _label(figure, axes)


def _draw_band(band: Band, axes: Axes) -> None:
    colour = style.colour(band.series)
    axes.axhspan(
        band.low,
        band.high,
        color=colour,
        alpha=0.25,
        linewidth=0,
        label=style.legend_label(band.label),
    )
    axes.axhline(band.middle, color=colour, linewidth=0.7)


def _draw_curve(curve: Curve, axes: Axes) -> None:
    colour = style.THEORY if curve.look in ("theory", "part") else style.colour(curve.series)
    axes.plot(
        curve.x,
        curve.y,
        color=colour,
        dashes=_DASHES[curve.look],
        label=style.legend_label(curve.label),
        zorder=1.5,
    )


def _draw_points(points: Points, axes: Axes) -> None:
    colour = style.colour(points.series)
    if points.many:
        axes.plot(points.x, points.y, "o", color=colour, markersize=_SMALL, alpha=0.6, mew=0)
        return
    if points.low:
        below = [y - low for y, low in zip(points.y, points.low, strict=True)]
        above = [high - y for y, high in zip(points.y, points.high, strict=True)]
        errors = (below, above)
    axes.errorbar(
        points.x,
        points.y,
        yerr=errors if points.low else None,
        color=colour,
        marker=style.marker(points.series),
        markerfacecolor="white" if points.hollow else colour,
        markersize=_RING if points.hollow else None,
        zorder=2.0 if points.hollow else 2.1,
        markeredgewidth=0.9,
        linestyle="-" if points.joined else "none",
        linewidth=0.8,
        elinewidth=0.9,
        capsize=1.6,
        label=style.legend_label(points.label),
    )


def _label(figure: Scaling, axes: Axes) -> None:
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    axes.set_xscale(figure.x_scale, **({"base": 2} if figure.x_scale == "log" else {}))
    axes.set_yscale(figure.y_scale)
    if figure.y_scale == "log":
        style.plain_log_ticks(axes.yaxis)
    if figure.x_ticks:
        ticks = figure.x_ticks[:: -(-len(figure.x_ticks) // _MOST_TICKS)]
        axes.set_xticks(ticks, labels=[f"{tick:,.10g}" for tick in ticks])
    if figure.y_from_zero:
        axes.set_ylim(bottom=0)
    if figure.y_top is not None:
        axes.set_ylim(bottom=figure.y_bottom, top=figure.y_top)
    _label_series(figure, axes)
    if figure.direct:
        ends = [(p.label, p.y[-1], p.series) for p in figure.points if p.label]
        label_ends([*ends, *((b.label, b.middle, b.series) for b in figure.bands)], axes)


def _label_series(figure: Scaling, axes: Axes) -> None:
    """The title, and the legend where there is more than one entry.

    A legend above the axes covers no point and no interval, and carries the title; where the panel
    is too narrow for it, it stands where it covers least.
    """
    entries, title = len(axes.get_legend_handles_labels()[1]), figure.title
    if entries > 1 and not (figure.bands and figure.y_from_zero):
        heading = {"title": title or None, "title_fontsize": "medium", "alignment": "left"}
        if fits(legend := legend_above(axes, _COLUMNS, _COLUMNS, **heading), axes):
            return
        legend.remove()
        axes.legend(loc="best", borderaxespad=0.3)
    elif entries > 1:
        # A band spans the whole width, so that a legend finds room only above it.
        for columns in (_COLUMNS, 1):
            legend = axes.legend(loc="upper center", borderaxespad=0.2, ncols=columns)
            if fits(legend, axes):
                break
        lines = math.ceil(entries / columns)
        axes.set_ylim(top=axes.get_ylim()[1] * (1 + _ROOM_A_LINE * lines))
    if title:
        axes.set_title(title, loc="left")
