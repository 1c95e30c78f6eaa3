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

#: Pairs of a series (``Points`` or ``Curve``) and the artists that draw this series.
DrawnSeries: TypeAlias = list[tuple[Any, Sequence[Artist]]]

#: Smallest vertical distance between two names of series at the right edge.
_NAME_SPACING_PT: Final = 1.25 * style.SMALL_PT
#: Distance from the axes to the names at the right edge.
_NAME_OFFSET_PT: Final = 4.0
#: Estimated height of the axes, as a share of the height of a row of panels.
_AXES_SHARE: Final = 0.72
_POINTS_PER_INCH: Final = 72

#: Length (decades) of a logarithmic axis from which ticks at 1, 2 and 5 would be too dense.
_MANY_DECADES: Final = 2.5
#: Length (decades) of a logarithmic axis below which the ticks have equal distances.
_FEW_DECADES: Final = 0.5
#: Largest number of intervals between ticks with equal distances.
_EQUAL_STEPS: Final = 5


def name_rows(names: Sequence[str], axes: Axes) -> None:
    """Name the rows 0, 1, 2 … of the y axis from top to bottom, without ticks."""
    axes.set_yticks(range(len(names)), labels=list(names))
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)


def say_not_measured(axes: Axes) -> None:
    """Write "not measured" in the middle of an empty panel."""
    axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes)


def legend_above(axes: Axes, columns: int, fewest: int = 1, **options: Any) -> Legend:
    """Draw a legend above the axes in as many columns as fit, from ``fewest`` to ``columns``.

    ``fewest`` columns are drawn even if they do not fit.  The labels of the axes must be final.
    ``options`` are arguments of matplotlib's ``legend``.
    """
    for column_count in range(columns, fewest - 1, -1):
        legend: Legend = axes.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=column_count,
            borderaxespad=0.2,
            columnspacing=1.0,
            **options,
        )
        if legend_fits(legend, axes):
            break
    return legend


def legend_fits(legend: Legend, axes: Axes) -> bool:
    """Return whether a legend is at most as wide as its panel without the labels of the y axis."""
    figure, grid = axes.get_figure(root=True), axes.get_subplotspec()
    assert figure is not None
    y_labels = axes.yaxis.get_tightbbox()
    margin = max(axes.bbox.x0 - y_labels.x0, 0.0) if y_labels else 0.0
    panels_in_row = grid.get_gridspec().ncols if grid else 1
    panel_width = figure.bbox.width / panels_in_row
    return bool(legend.get_window_extent().width <= panel_width - margin)


def label_ends(series: Sequence[tuple[str, float, int]], axes: Axes) -> None:
    """Write names of series at the right edge beside the last values, in the series' colours.

    ``series`` are (name, last value, style number).  Limits and scales of the axes must be final.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    grid = axes.get_subplotspec()
    rows = grid.get_gridspec().nrows if grid else 1
    axes_height_pt = figure.get_figheight() / rows * _POINTS_PER_INCH * _AXES_SHARE
    to_axes = axes.transData + axes.transAxes.inverted()
    x = axes.get_xlim()[1]
    # Heights of the last values, as shares of the axes.
    shares = [float(to_axes.transform((x, y))[1]) for _, y, _ in series]
    value_heights = [share * axes_height_pt for share in shares]
    name_heights = spread(value_heights, _NAME_SPACING_PT, axes_height_pt)
    for index, (name, _, style_number) in enumerate(series):
        axes.annotate(
            name,
            (1.0, shares[index]),
            (_NAME_OFFSET_PT, name_heights[index] - value_heights[index]),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=style.SMALL_PT,
            color=style.colour(style_number),
            va="center",
            annotation_clip=False,
        )


def spread(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Move heights apart to distances of at least ``gap``, in the same order and below ``top``.

    Heights that are too close form a group with distances ``gap`` around their mean.  Groups that
    are too close are joined.
    """

    def lowest(group: Sequence[int]) -> float:
        """Return the new height of the lowest member of a group (indices of ``heights``)."""
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
    new_heights = [0.0] * len(heights)
    for group in groups:
        for n, i in enumerate(group):
            new_heights[i] = lowest(group) + n * gap
    return new_heights


def plain_log_ticks(axis: Axis, many_decades: float = _MANY_DECADES) -> None:
    """Set the ticks of a logarithmic axis, with numbers such as 0.5 and 20 instead of powers.

    An axis of ``many_decades`` or more gets ticks only at powers of ten, a shorter axis at 1, 2 and
    5 times powers of ten, and an axis below ``_FEW_DECADES`` ticks with equal distances.
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
    """Format the value at a tick; matplotlib also passes the tick's position."""
    return f"{value:,.10g}"
