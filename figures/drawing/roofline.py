"""Draws achieved rates over arithmetic intensity under the roofs of a device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from figures.drawing import style
from figures.roofline import LEGEND_LINE, CacheRoof, Marks, RoofLine, Roofline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Up to this many decades an axis of a small panel has room for ticks at 1, 2 and 5.
_FEW_DECADES: Final = 1.9
#: Where the labels of slopes stand, as shares of the way from where one is seen to its ridge, the
#: slowest first; those of the fastest caches, whose lines lie close, at both ends of them.
_LABEL_PLACES: Final = (0.45, 0.7, 0.35, 0.85)
#: The diameter of one of many points (pt), also in the legend, and the length of its line as a
#: factor.
_TINY: Final = 1.7
_LEGEND_DOT: Final = 3.0
_SHORT: Final = 1.0001
#: Where a name begins (points from its mark): on the right and below, where no roof can be; those
#: of odd series lower, so that two near marks can have theirs.
_BESIDE: Final = ((4, -1), (-3, -5))
_LINES: Final = {"measured": "-", "sheet": "--", "printed": ":"}


def draw(figure: Roofline, axes: Axes) -> None:
    """Draw ``figure`` on ``axes``."""
    from matplotlib.lines import Line2D

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*figure.span)
    for roof in figure.roofs:
        _draw_roof(roof, figure.span, axes)
    for number, slope in enumerate(figure.slopes):
        _draw_slope(slope, figure, _LABEL_PLACES[number % len(_LABEL_PLACES)], axes)
    for marks in figure.marks:
        _draw_marks(marks, axes)
    if not figure.roofs and not figure.marks:
        axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes)
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    axes.set_title(figure.title, loc="left")
    entries = len(axes.get_legend_handles_labels()[1])
    if figure.limits:
        axes.set_ylim(*figure.limits[1])
    if entries > 1:
        if not figure.limits:
            # Nothing lies above a roof, so that a legend finds room there.
            low, high = axes.get_ylim()
            axes.set_ylim(low, high * (high / low) ** (LEGEND_LINE * entries))
        legend = axes.legend(
            loc="upper left", borderaxespad=0.2, handletextpad=0.4, labelspacing=0.25
        )
        many = {style.legend_label(marks.label) for marks in figure.marks if marks.many}
        for handle in legend.legend_handles:
            if isinstance(handle, Line2D) and handle.get_label() in many:
                handle.set(marker="o", linestyle="none", markersize=_LEGEND_DOT)
    style.plain_log_ticks(axes.xaxis, _FEW_DECADES)
    style.plain_log_ticks(axes.yaxis, _FEW_DECADES)


def _draw_roof(roof: RoofLine, span: tuple[float, float], axes: Axes) -> None:
    colour = style.INK if roof.look == "measured" else style.THEORY
    x = sorted({*span, *_ridges(roof, span)})
    axes.plot(
        x,
        _heights(x, roof.peak.middle, roof.bandwidth.middle),
        color=colour,
        linewidth=1.0,
        label=style.legend_label(roof.label),
        linestyle=_LINES[roof.look],
        zorder=1.5,
    )
    if roof.peak.low < roof.peak.high or roof.bandwidth.low < roof.bandwidth.high:
        low = _heights(x, roof.peak.low, roof.bandwidth.low)
        high = _heights(x, roof.peak.high, roof.bandwidth.high)
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0, zorder=1.4)


def _draw_slope(slope: CacheRoof, figure: Roofline, where: float, axes: Axes) -> None:
    """A slope from the left edge to its ridge and on to the first roof's, with its label on it.

    Labels of neighbours stand at different places of their lines, so that none covers another.
    """
    first, left = figure.roofs[0], figure.span[0]
    ridge = first.peak.middle / slope.bandwidth.middle
    end = max(ridge, first.ridge)
    corners = (first.peak.middle / each for each in (slope.bandwidth.low, slope.bandwidth.high))
    x = sorted({left, ridge, end, *(corner for corner in corners if left < corner < end)})
    axes.plot(
        x,
        _heights(x, first.peak.middle, slope.bandwidth.middle),
        color=style.INK,
        linewidth=0.7,
        zorder=1.45,
    )
    low, high = (
        _heights(x, first.peak.middle, end) for end in (slope.bandwidth.low, slope.bandwidth.high)
    )
    axes.fill_between(x, low, high, color=style.INK, alpha=0.2, linewidth=0, zorder=1.4)
    bottom = figure.limits[1][0] if figure.limits else 0.0
    seen = max(left, bottom / slope.bandwidth.middle)
    place = seen * (ridge / seen) ** where
    axes.text(
        place,
        slope.bandwidth.middle * place,
        slope.label,
        fontsize=style.SMALL,
        ha="center",
        va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        zorder=1.6,
    )


def _ridges(roof: RoofLine, span: tuple[float, float]) -> list[float]:
    """The corners of line and band, as far as they are drawn."""
    peak, bandwidth = roof.peak, roof.bandwidth
    corners = (roof.ridge, peak.low / bandwidth.low, peak.high / bandwidth.high)
    return [x for x in corners if span[0] < x < span[1]]


def _heights(x: list[float], peak: float, bandwidth: float) -> list[float]:
    return [min(peak, intensity * bandwidth) for intensity in x]


def _draw_many(marks: Marks, axes: Axes) -> None:
    """Many points as one path of dots, since a mark for each would make a page slow."""
    ends = [(each, each * _SHORT, math.nan) for each in marks.x]
    (line,) = axes.plot(
        [x for part in ends for x in part],
        [y for each in marks.y for y in (each, each, math.nan)],
        color=style.colour(marks.series),
        linewidth=_TINY,
        solid_capstyle="round",
        alpha=0.6,
        label=style.legend_label(marks.label),
    )
    line.get_path().should_simplify = False


def _draw_marks(marks: Marks, axes: Axes) -> None:
    if marks.many:
        _draw_many(marks, axes)
        return
    colour = style.colour(marks.series)
    axes.errorbar(
        marks.x,
        marks.y,
        color=colour,
        marker=style.marker(marks.series),
        markerfacecolor="white" if marks.hollow else colour,
        markeredgewidth=0.8,
        linestyle="none",
        elinewidth=0.8,
        capsize=1.4,
        alpha=0.85,
        label=style.legend_label(marks.label),
    )
    for x, y, name in zip(marks.x, marks.y, marks.names, strict=False):
        axes.annotate(
            name,
            (x, y),
            _BESIDE[marks.series % 2],
            textcoords="offset points",
            fontsize=style.SMALL,
            color=colour,
            ha="left",
            va="top",
            zorder=1.9,  # Below all marks, so that a name hides none.
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8},
        )
