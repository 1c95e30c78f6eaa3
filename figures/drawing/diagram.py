"""Draws block diagrams: boxes and arrows between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from figures.diagram import Arrow, Box, Diagram
from figures.drawing import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FILL: Final = 0.28
_LINE: Final = 0.7


def draw(figure: Diagram, axes: Axes) -> None:
    """Draw ``figure`` on ``axes``, which lose their frame."""
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(0, figure.width)
    axes.set_ylim(0, figure.height)
    for box in figure.boxes:
        _draw_box(box, axes)
    for arrow in figure.arrows:
        _draw_arrow(arrow, axes)


def _draw_box(box: Box, axes: Axes) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    fill = "white" if box.series is None else to_rgba(style.colour(box.series), _FILL)
    edge = style.INK if box.series is None else style.colour(box.series)
    axes.add_patch(
        Rectangle(
            (box.x, box.y), box.width, box.height, facecolor=fill, edgecolor=edge, linewidth=_LINE
        )
    )
    if box.text:
        axes.text(
            *box.middle, box.text, ha="center", va="center", fontsize=style.SMALL, linespacing=1.25
        )


def _draw_arrow(arrow: Arrow, axes: Axes) -> None:
    axes.annotate(
        "",
        xy=arrow.end,
        xytext=arrow.start,
        arrowprops={
            "arrowstyle": "-|>",
            "color": style.THEORY if arrow.broken else style.INK,
            "linewidth": 0.8,
            "linestyle": (0, (3, 2)) if arrow.broken else "-",
            "mutation_scale": 6,
            "shrinkA": 0,
            "shrinkB": 0,
        },
    )
