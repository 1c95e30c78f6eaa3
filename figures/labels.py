"""Places names: of rows, of series beside the ends of their lines or in a legend, and of ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.legend import Legend
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from figures import style

#: Series by what they were drawn as.  A series has a label, and its points in ``x`` and ``y``.
Drawn: TypeAlias = list[tuple[Any, Sequence[Artist]]]

#: Points between the middles of two names, and from the axes to a name.
_LINE, _AWAY = 1.25 * style.SMALL, 4.0
#: The share of a figure's height that its axes have, before they are laid out.
_AXES_SHARE: Final = 0.72

#: Up to this many decades a logarithmic axis has room for ticks at 1, 2 and 5.
_FEW_DECADES: Final = 2.5
#: An axis of fewer decades has ticks at equal steps, since one digit would be all between them.
_NARROW: Final = 0.5
_NARROW_TICKS: Final = 5


def name_rows(names: Sequence[str], axes: Axes) -> None:
    """Rows with these names from top to bottom, without ticks."""
    axes.set_yticks(range(len(names)), labels=list(names))
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)


def say_not_measured(axes: Axes) -> None:
    """In the middle of a panel without any mark."""
    axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes)


def legend_above(axes: Axes, columns: int, least: int = 1, **options: Any) -> Legend:
    """A legend above the axes in as many of ``columns``, at ``least``, as their panel has room for.

    The labels of the axes are final; ``options`` are those of matplotlib's legend.
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
    """Whether a legend is no wider than the axes' panel less the labels at its left."""
    figure, grid = axes.get_figure(root=True), axes.get_subplotspec()
    assert figure is not None
    beside = axes.yaxis.get_tightbbox()
    margin = max(axes.bbox.x0 - beside.x0, 0.0) if beside else 0.0
    panel = figure.bbox.width / (grid.get_gridspec().ncols if grid else 1)
    return bool(legend.get_window_extent().width <= panel - margin)


def label_ends(ends: Sequence[tuple[str, float, int]], axes: Axes) -> None:
    """Write each name, in its series' colour, at the right edge beside its last value.

    ``ends`` are names with the value and the number of the series; the limits and scales of the
    axes are final.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    height = figure.get_figheight() * 72 * _AXES_SHARE
    to_axes = axes.transData + axes.transAxes.inverted()
    x = axes.get_xlim()[1]
    shares = [float(to_axes.transform((x, y))[1]) for _, y, _ in ends]
    places = spread([share * height for share in shares], _LINE, height)
    for (name, _, series), share, place in zip(ends, shares, places, strict=True):
        axes.annotate(
            name,
            (1.0, share),
            (_AWAY, place - share * height),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=style.SMALL,
            color=style.colour(series),
            va="center",
            annotation_clip=False,
        )


def spread(places: Sequence[float], gap: float, top: float) -> list[float]:
    """The places moved apart to at least ``gap``, in their order, and none above ``top``.

    Neighbours that would touch become a group around their common middle, and groups that would
    touch become one.
    """

    def first(group: Sequence[int]) -> float:
        length = gap * (len(group) - 1)
        middle = sum(places[i] for i in group) / len(group)
        return min(middle - length / 2, top - length)

    groups: list[list[int]] = []
    for i in sorted(range(len(places)), key=lambda i: places[i]):
        groups.append([i])
        while len(groups) > 1 and first(groups[-1]) - first(groups[-2]) < gap * len(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    return [
        place
        for _, place in sorted(
            (i, first(group) + n * gap) for group in groups for n, i in enumerate(group)
        )
    ]


def plain_log_ticks(axis: Axis, few_decades: float = _FEW_DECADES) -> None:
    """Numbers as a reader writes them (0.5, 20) at the ticks of a logarithmic axis."""
    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    if decades < _NARROW:
        axis.set_major_locator(MaxNLocator(_NARROW_TICKS, steps=[1, 2, 5, 10]))
    else:
        subs = (1, 2, 5) if decades < few_decades else (1,)
        axis.set_major_locator(LogLocator(base=10, subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    # Small ticks would have no length, but matplotlib would place each of them.
    axis.set_minor_locator(NullLocator())
