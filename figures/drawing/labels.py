"""Places the names of series beside the ends of their lines, so that none touches a neighbour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from figures.drawing import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Points between the middles of two names, and from the axes to a name.
_LINE, _AWAY = 1.25 * style.SMALL, 4.0
#: The share of a figure's height that its axes have, before they are laid out.
_AXES_SHARE: Final = 0.72


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
