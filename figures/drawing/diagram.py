"""Draws block diagrams: boxes, arrows between them and words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from figures.diagram import Arrow, Box, Diagram, Point
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
    if figure.title:
        axes.set_title(figure.title, loc="center")
    for box in figure.boxes:
        _draw_box(box, axes)
    for arrow in figure.arrows:
        _draw_arrow(arrow, axes)
    for words in figure.words:
        _write(words.text, (words.x, words.y), axes)


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
        _write(box.text, box.middle, axes)


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
    if arrow.text:
        (x0, y0), (x1, y1) = arrow.start, arrow.end
        axes.annotate(
            arrow.text,
            xy=((x0 + x1) / 2, (y0 + y1) / 2),
            xytext=(0, 2) if y0 == y1 else (3, 0),
            textcoords="offset points",
            ha="center" if y0 == y1 else "left",
            va="bottom" if y0 == y1 else "center",
            fontsize=style.SMALL,
        )


def _write(text: str, at: Point, axes: Axes) -> None:
    axes.text(*at, text, ha="center", va="center", fontsize=style.SMALL, linespacing=1.25)
