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

#: Series (with ``label``, ``x`` and ``y``), and the artists that draw the series.
Drawn: TypeAlias = list[tuple[Any, Sequence[Artist]]]

#: Distances (pt): between two names, and from the axes to a name.
_NAME_SPACING, _NAME_OFFSET = 1.25 * style.SMALL, 4.0
#: Height of the axes as a share of the height of a row of panels, before the layout.
_AXES_SHARE: Final = 0.72

#: Longest logarithmic axis (decades) with ticks at 1, 2 and 5.
_FEW_DECADES: Final = 2.5
#: Shortest axis (decades) with ticks at 1, 2 and 5, and number of equal steps on a shorter axis.
_FEWEST_DECADES: Final = 0.5
_EQUAL_STEPS: Final = 5


def name_rows(names: Sequence[str], axes: Axes) -> None:
    """Name the rows from top to bottom, without ticks."""
    axes.set_yticks(range(len(names)), labels=list(names))
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)


def say_not_measured(axes: Axes) -> None:
    """Write "not measured" in the middle of an empty panel."""
    axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes)


def legend_above(axes: Axes, columns: int, least: int = 1, **options: Any) -> Legend:
    """Draw a legend above the axes, in the most columns from ``least`` to ``columns`` that fit.

    The labels of the axes must be final.  ``options`` are options of matplotlib.
    """
    for count in range(columns, least - 1, -1):
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
    beside = axes.yaxis.get_tightbbox()
    margin = max(axes.bbox.x0 - beside.x0, 0.0) if beside else 0.0
    panel = figure.bbox.width / (grid.get_gridspec().ncols if grid else 1)
    return bool(legend.get_window_extent().width <= panel - margin)


def label_ends(ends: Sequence[tuple[str, float, int]], axes: Axes) -> None:
    """Write names of series at the right edge beside the last values, in the series' colours.

    ``ends`` are (name, last value, number of the series).  Limits and scales must be final.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    grid = axes.get_subplotspec()
    rows = grid.get_gridspec().nrows if grid else 1
    height = figure.get_figheight() / rows * 72 * _AXES_SHARE
    to_axes = axes.transData + axes.transAxes.inverted()
    x = axes.get_xlim()[1]
    shares = [float(to_axes.transform((x, y))[1]) for _, y, _ in ends]
    places = spread([share * height for share in shares], _NAME_SPACING, height)
    for (name, _, series), share, place in zip(ends, shares, places, strict=True):
        axes.annotate(
            name,
            (1.0, share),
            (_NAME_OFFSET, place - share * height),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=style.SMALL,
            color=style.colour(series),
            va="center",
            annotation_clip=False,
        )


def spread(places: Sequence[float], gap: float, top: float) -> list[float]:
    """Move places apart to distances of at least ``gap``, in the same order, all below ``top``.

    Overlapping neighbours become a group around the common middle; overlapping groups are joined.
    """

    def start(group: Sequence[int]) -> float:
        length = gap * (len(group) - 1)
        middle = sum(places[i] for i in group) / len(group)
        return min(middle - length / 2, top - length)

    groups: list[list[int]] = []
    for i in sorted(range(len(places)), key=places.__getitem__):
        groups.append([i])
        while len(groups) > 1 and start(groups[-1]) - start(groups[-2]) < gap * len(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    moved = [0.0] * len(places)
    for group in groups:
        for n, i in enumerate(group):
            moved[i] = start(group) + n * gap
    return moved


def plain_log_ticks(axis: Axis, few_decades: float = _FEW_DECADES) -> None:
    """Set the ticks of a logarithmic axis, with numbers such as 0.5 and 20 instead of powers."""
    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    if decades < _FEWEST_DECADES:
        axis.set_major_locator(MaxNLocator(_EQUAL_STEPS, steps=[1, 2, 5, 10]))
    else:
        subs = (1, 2, 5) if decades < few_decades else (1,)
        axis.set_major_locator(LogLocator(base=10, subs=subs))
    axis.set_major_formatter(FuncFormatter(_plain_number))
    # Minor ticks have length 0 in this style, but placing minor ticks takes time.
    axis.set_minor_locator(NullLocator())


def _plain_number(value: float, _: object) -> str:
    return f"{value:,.10g}"
