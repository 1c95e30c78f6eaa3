"""Draws levels over a course of events: stacked areas, and lines over them.

Every part has a colour and a hatching of its own, and lines differ in their dashes, so that both
can be told apart without colours.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from figures.drawing import style
from figures.drawing.bars import HATCHES
from figures.drawing.labels import legend_above
from figures.levels import Levels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES: Final = ("-", (0, (4, 1.5)), (0, (1, 1)))
_COLUMNS: Final = 3


def draw(figure: Levels, axes: Axes) -> None:
    """Draw ``figure`` on ``axes``."""
    below = [0.0] * (len(figure.parts[0].x) if figure.parts else 0)
    for index, part in enumerate(figure.parts):
        above = [low + y for low, y in zip(below, part.y, strict=True)]
        axes.fill_between(
            part.x,
            below,
            above,
            step="post",
            facecolor=style.colour(index),
            alpha=0.6,
            edgecolor="white",
            linewidth=0,
            hatch=HATCHES[index % len(HATCHES)],
            label=style.legend_label(part.label),
        )
        below = above
    if figure.parts:  # what comes and goes at one moment has no width, and is seen as a line alone
        colour = style.colour(len(figure.parts) - 1)
        axes.step(figure.parts[-1].x, below, where="post", color=colour, linewidth=0.7)
    for index, line in enumerate(figure.lines):
        dashes = _DASHES[index % len(_DASHES)]
        label = style.legend_label(line.label)
        axes.step(line.x, line.y, where="post", color=style.INK, linestyle=dashes, label=label)
    _label(figure, axes)


def _label(figure: Levels, axes: Axes) -> None:
    ends = [0.0, *(end for end, _ in figure.phases)]
    for (start, end), (_, name) in zip(pairwise(ends), figure.phases, strict=True):
        axes.axvline(end, color=style.THEORY, linewidth=0.6)
        axes.annotate(
            name,
            xy=((start + end) / 2, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0.0, -2.0),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=style.SMALL,
        )
    axes.set_xlim(0.0, ends[-1] or 1.0)
    axes.set_ylim(bottom=0.0)
    axes.margins(y=0.12)
    axes.set_xticks([])
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    legend_above(axes, _COLUMNS)
