"""Draw rooflines: achieved rates over arithmetic intensity under the roofs of a device.

After Williams, Waterman and Patterson (CACM 2009).  A roof is a line; its interval is a band.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Final

from matplotlib.axes import Axes

from figures import style
from figures.labels import Drawn, plain_log_ticks, say_not_measured
from figures.panels import Points, RoofLimit, RoofLine, Roofline
from figures.points import draw_points

#: Factor by which the axes extend beyond marks and roofs.
_MARGIN: Final = 2.5
#: Height of a line of the legend, as a share of the axis (in decades).
_LEGEND_LINE: Final = 0.07
#: Longest axis (decades) with ticks at 1, 2 and 5.
_FEW_DECADES: Final = 1.9
#: Line styles of roofs, since all roofs have one colour.
_LINES: Final = ("solid", "dashed", "dotted")
#: Position of the label "memory", as a share of the visible slope up to the ridge.
_LABEL_PLACE: Final = 0.45
#: Offsets (pt) of a name from its mark, for even and odd series: below the mark no roof can be, and
#: the names of two near marks must not overlap.
_NAME_OFFSETS: Final = ((4, -1), (-3, -5))


def draw(panel: Roofline, axes: Axes) -> Drawn:
    """Draw the marks, and set limits of the axes with room for roofs and legend."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    drawn: Drawn = []
    for marks in panel.marks:
        drawn.append((marks, draw_points(marks, axes, label=marks.label, alpha=0.85)))
    ridges = [roof.ridge for roof in panel.roofs]
    x, y = ridges, [roof.peak[2] for roof in panel.roofs]
    for marks in panel.marks:
        x += marks.x
        y += marks.y
    if x:
        axes.set_xlim(min(x) / _MARGIN, max(x) * _MARGIN)
        # The legend is above the roofs, where no marks are.
        low, high = min(y) / _MARGIN, max(y) * _MARGIN
        axes.set_ylim(low, high * (high / low) ** (_LEGEND_LINE * _entries(panel)))
    else:
        say_not_measured(axes)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_title(panel.title, loc="left")
    return drawn


def _entries(panel: Roofline) -> int:
    """Count the lines of the legend; a single series needs no legend."""
    labels = [*(roof.label for roof in panel.roofs), *(marks.label for marks in panel.marks)]
    count = sum(map(bool, labels))
    return count if count > 1 else 0


def finish(panel: Roofline, axes: Axes) -> None:
    """Draw the roofs from edge to edge, the names of the marks, and the legend."""
    span = axes.get_xlim()
    for roof, line in zip(panel.roofs, cycle(_LINES), strict=False):
        axes.plot(
            *_line(roof.peak[1], roof.bandwidth[1], span),
            color=style.INK,
            linewidth=1.0,
            linestyle=line,
            label=style.legend_label(roof.label),
            zorder=1.5,
        )
        _fill(roof.peak, roof.bandwidth, span, axes)
        if not roof.label:
            _name_parts(roof, axes)
    for marks in panel.marks:
        _name(marks, axes)
    if _entries(panel):
        axes.legend(loc="upper left", borderaxespad=0.2, handletextpad=0.4, labelspacing=0.25)
    plain_log_ticks(axes.xaxis, _FEW_DECADES)
    plain_log_ticks(axes.yaxis, _FEW_DECADES)


def _name_parts(roof: RoofLine, axes: Axes) -> None:
    """Label the parts of a roof that has no name: arithmetic and memory."""
    (left, right), bottom = axes.get_xlim(), axes.get_ylim()[0]
    axes.text(right, roof.peak[1], "arithmetic", fontsize=style.SMALL, ha="right", va="bottom")
    visible_from = max(left, bottom / roof.bandwidth[1])
    place = visible_from * (roof.ridge / visible_from) ** _LABEL_PLACE
    axes.text(
        place,
        roof.bandwidth[1] * place,
        "memory",
        fontsize=style.SMALL,
        ha="center",
        va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        zorder=1.6,
    )


def _line(peak: float, bandwidth: float, span: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the coordinates of a roof over ``span``, with the ridge if it is inside."""
    ridge = peak / bandwidth
    x = sorted({*span, *([ridge] if span[0] < ridge < span[1] else [])})
    return x, [min(peak, intensity * bandwidth) for intensity in x]


def _fill(peak: RoofLimit, bandwidth: RoofLimit, span: Sequence[float], axes: Axes) -> None:
    """Fill the interval of a roof or of a slope."""
    if peak[0] < peak[2] or bandwidth[0] < bandwidth[2]:
        low, high = (_line(peak[end], bandwidth[end], span) for end in (0, 2))
        x, y = [*low[0], *high[0][::-1]], [*low[1], *high[1][::-1]]
        axes.fill(x, y, color=style.INK, alpha=0.2, linewidth=0, zorder=1.4)


def _name(marks: Points, axes: Axes) -> None:
    """Write the names of marks beside the marks."""
    for x, y, name in zip(marks.x, marks.y, marks.names, strict=False):
        axes.annotate(
            name,
            (x, y),
            _NAME_OFFSETS[marks.series % 2],
            textcoords="offset points",
            fontsize=style.SMALL,
            color=style.colour(marks.series),
            ha="left",
            va="top",
            zorder=1.9,  # below all marks, so that names cover no mark
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8},
        )
