"""Place labels of rows, series and ticks, and legends."""

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.legend import Legend
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from figures import style

#: Pairs of a series (with ``label``, ``x`` and ``y``) and the artists that draw it.
Drawn: TypeAlias = list[tuple[Any, Sequence[Artist]]]

#: Distances (pt): between two names, and from the axes to a name.
_NAME_SPACING, _NAME_OFFSET = 1.25 * style.SMALL, 4.0
#: Height of the axes as a share of the height of a row of panels, before the layout.
_AXES_SHARE: Final = 0.72

#: Length (decades) of a logarithmic axis from which ticks at 1, 2 and 5 would be too close.
_MANY_DECADES: Final = 2.5
#: Length (decades) below which the ticks have equal distances, and the number of these distances.
_FEW_DECADES: Final = 0.5
_EQUAL_STEPS: Final = 5


def name_rows(names: Sequence[str], axes: Axes) -> None:
    """Name the rows from top to bottom, without ticks."""
    axes.set_yticks(range(len(names)), labels=list(names))
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)


def say_not_measured(axes: Axes) -> None:
    """Write "not measured" in the middle of an empty panel."""
    axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes)


def legend_above(axes: Axes, columns: int, fewest: int = 1, **options: Any) -> Legend:
    """Draw a legend above the axes, in the most columns from ``fewest`` to ``columns`` that fit.

    The labels of the axes must be final.  ``options`` go to matplotlib's ``legend``.
    """
    for count in range(columns, fewest - 1, -1):
        legend: Legend = axes.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=count,
            borderaxespad=0.2,
            columnspacing=1.0,
            **options,
        )
        if fits(legend, axes):
            break
    return legend


def fits(legend: Legend, axes: Axes) -> bool:
    """Tell whether a legend fits between the labels of the axes and the panel's right end."""
    figure, grid = axes.get_figure(root=True), axes.get_subplotspec()
    assert figure is not None
    y_labels = axes.yaxis.get_tightbbox()
    margin = max(axes.bbox.x0 - y_labels.x0, 0.0) if y_labels else 0.0
    panels_in_row = grid.get_gridspec().ncols if grid else 1
    panel_width = figure.bbox.width / panels_in_row
    return bool(legend.get_window_extent().width <= panel_width - margin)


def label_ends(series: Sequence[tuple[str, float, int]], axes: Axes) -> None:
    """Write names of series at the right edge beside the last values, in the series' colours.

    ``series`` are (name, last value, number of the series).  Limits and scales must be final.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    grid = axes.get_subplotspec()
    rows = grid.get_gridspec().nrows if grid else 1
    height = figure.get_figheight() / rows * 72 * _AXES_SHARE
    to_axes = axes.transData + axes.transAxes.inverted()
    x = axes.get_xlim()[1]
    # Heights of the last values as shares of the axes, and heights (pt) of the names.
    shares = [float(to_axes.transform((x, y))[1]) for _, y, _ in series]
    name_heights = spread([share * height for share in shares], _NAME_SPACING, height)
    for (name, _, number), share, name_height in zip(series, shares, name_heights, strict=True):
        axes.annotate(
            name,
            (1.0, share),
            (_NAME_OFFSET, name_height - share * height),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=style.SMALL,
            color=style.colour(number),
            va="center",
            annotation_clip=False,
        )


def spread(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Move heights apart to distances of at least ``gap``, in the same order, all below ``top``.

    Overlapping neighbours become a group around the common middle; overlapping groups are joined.
    """

    def lowest(group: Sequence[int]) -> float:
        """Return the new height of the first member of a group of indices."""
        length = gap * (len(group) - 1)
        middle = sum(heights[i] for i in group) / len(group)
        return min(middle - length / 2, top - length)

    groups: list[list[int]] = []
    for i in sorted(range(len(heights)), key=heights.__getitem__):
        groups.append([i])
        while len(groups) > 1:
            below, above = groups[-2], groups[-1]
            if lowest(above) - lowest(below) >= gap * len(below):
                break
            groups[-2:] = [below + above]
    moved = [0.0] * len(heights)
    for group in groups:
        for n, i in enumerate(group):
            moved[i] = lowest(group) + n * gap
    return moved


def plain_log_ticks(axis: Axis, many_decades: float = _MANY_DECADES) -> None:
    """Set the ticks of a logarithmic axis, with numbers such as 0.5 and 20 instead of powers.

    An axis of ``many_decades`` or more has ticks only at powers of ten.
    """
    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    if decades < _FEW_DECADES:
        axis.set_major_locator(MaxNLocator(_EQUAL_STEPS, steps=[1, 2, 5, 10]))
    else:
        multiples = (1, 2, 5) if decades < many_decades else (1,)
        axis.set_major_locator(LogLocator(base=10, subs=multiples))
    axis.set_major_formatter(FuncFormatter(_plain_number))
    # Minor ticks have length 0 in this style, but placing minor ticks takes time.
    axis.set_minor_locator(NullLocator())


def _plain_number(value: float, _: object) -> str:
    return f"{value:,.10g}"
