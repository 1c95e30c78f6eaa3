"""Achieved rate over arithmetic intensity under the roofs of a device, both axes logarithmic.

After Williams, Waterman and Patterson (CACM 2009).  A roof is a line with its interval as a band.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes

from figures import style
from figures.labels import Drawn, plain_log_ticks, say_not_measured
from figures.panels import Ceiling, Points, RoofLine, Roofline
from figures.points import draw_points

#: How far the axes go beyond what is drawn, as a factor.
_ROOM: Final = 2.5
#: The share of the axis' decades that one line of the legend is given.
_LEGEND_LINE: Final = 0.07
#: Up to this many decades an axis of a small panel has room for ticks at 1, 2 and 5.
_FEW_DECADES: Final = 1.9
#: Where the labels of slopes stand, as shares of the way from where one is seen to its ridge, the
#: slowest first; those of the fastest caches, whose lines lie close, at both ends of them.
_LABEL_PLACES: Final = (0.45, 0.7, 0.35, 0.85)
#: Where a name begins (points from its mark): on the right and below, where no roof can be; those
#: of odd series lower, so that two near marks can have theirs.
_BESIDE: Final = ((4, -1), (-3, -5))


def _slopes(panel: Roofline) -> list[tuple[str, Ceiling]]:
    """All slopes under the first roof's flat part, slowest first; none without caches."""
    memory = [("memory", roof.bandwidth) for roof in panel.roofs[:1]]
    return sorted([*memory, *panel.caches], key=lambda each: each[1][1]) if panel.caches else []


def draw(panel: Roofline, axes: Axes) -> Drawn:
    """The marks, and axes that hold all roofs with room around and for the legend above."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    drawn: Drawn = [
        (each, draw_points(each, axes, label=each.label, alpha=0.85)) for each in panel.marks
    ]
    ridges = [roof.ridge for roof in panel.roofs]
    ridges += [panel.roofs[0].peak[1] / bandwidth[1] for _, bandwidth in _slopes(panel)]
    x = [*(x for marks in panel.marks for x in marks.x), *ridges]
    y = [*(y for marks in panel.marks for y in marks.y), *(r.peak[2] for r in panel.roofs)]
    if x:
        axes.set_xlim(min(x) / _ROOM, max(x) * _ROOM)
        # Nothing lies above a roof, so that a legend finds room there.
        low, high = min(y) / _ROOM, max(y) * _ROOM
        axes.set_ylim(low, high * (high / low) ** (_LEGEND_LINE * _entries(panel)))
    else:
        say_not_measured(axes)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_title(panel.title, loc="left")
    return drawn


def _entries(panel: Roofline) -> int:
    """The lines of the legend, which one series needs not."""
    labels = [*(roof.label for roof in panel.roofs), *(marks.label for marks in panel.marks)]
    count = sum(map(bool, labels))
    return count if count > 1 else 0


def finish(panel: Roofline, axes: Axes) -> None:
    """The roofs from the left edge to the right one, the names of the marks, and the legend."""
    span = axes.get_xlim()
    for roof in panel.roofs:
        axes.plot(
            *_line(roof.peak[1], roof.bandwidth[1], span),
            color=style.INK,
            linewidth=1.0,
            label=style.legend_label(roof.label),
            zorder=1.5,
        )
        _fill(roof.peak, roof.bandwidth, span, axes)
    if panel.caches:
        place = span[1], panel.roofs[0].peak[1]
        axes.text(*place, "arithmetic", fontsize=style.SMALL, ha="right", va="bottom")
    for number, slope in enumerate(_slopes(panel)):
        _draw_slope(panel.roofs[0], *slope, _LABEL_PLACES[number % len(_LABEL_PLACES)], axes)
    for marks in panel.marks:
        _name(marks, axes)
    if _entries(panel):
        axes.legend(loc="upper left", borderaxespad=0.2, handletextpad=0.4, labelspacing=0.25)
    plain_log_ticks(axes.xaxis, _FEW_DECADES)
    plain_log_ticks(axes.yaxis, _FEW_DECADES)


def _draw_slope(first: RoofLine, name: str, bandwidth: Ceiling, where: float, axes: Axes) -> None:
    """A slope from the left edge to its ridge and on to the first roof's, with its name on it.

    Names of neighbours stand at different places of their lines, so that none covers another.
    """
    left, bottom = axes.get_xlim()[0], axes.get_ylim()[0]
    peak, ridge = first.peak[1], first.peak[1] / bandwidth[1]
    span = left, max(ridge, first.ridge)
    line = _line(peak, bandwidth[1], span)
    axes.plot(*line, color=style.INK, linewidth=0.7, zorder=1.45)
    _fill((peak,) * 3, bandwidth, span, axes)
    seen = max(left, bottom / bandwidth[1])
    place = seen * (ridge / seen) ** where
    axes.text(
        place,
        bandwidth[1] * place,
        name,
        fontsize=style.SMALL,
        ha="center",
        va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        zorder=1.6,
    )


def _line(peak: float, bandwidth: float, span: Sequence[float]) -> tuple[list[float], list[float]]:
    """A roof from one end of ``span`` to the other, with its corner where that lies between."""
    ridge = peak / bandwidth
    x = sorted({*span, *([ridge] if span[0] < ridge < span[1] else [])})
    return x, [min(peak, intensity * bandwidth) for intensity in x]


def _fill(peak: Ceiling, bandwidth: Ceiling, span: Sequence[float], axes: Axes) -> None:
    """The interval of a roof or of a slope."""
    if peak[0] < peak[2] or bandwidth[0] < bandwidth[2]:
        low, high = (_line(peak[end], bandwidth[end], span) for end in (0, 2))
        x, y = [*low[0], *high[0][::-1]], [*low[1], *high[1][::-1]]
        axes.fill(x, y, color=style.INK, alpha=0.2, linewidth=0, zorder=1.4)


def _name(marks: Points, axes: Axes) -> None:
    for x, y, name in zip(marks.x, marks.y, marks.names, strict=False):
        axes.annotate(
            name,
            (x, y),
            _BESIDE[marks.series % 2],
            textcoords="offset points",
            fontsize=style.SMALL,
            color=style.colour(marks.series),
            ha="left",
            va="top",
            zorder=1.9,  # Below all marks, so that a name hides none.
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8},
        )
