"""Draw a grid of letters on coloured cells; letters serve readers who cannot see the colours."""

from typing import Final

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from figures import style
from figures.labels import DrawnSeries, name_rows
from figures.panels import Grid

#: Side of a coloured square, as a share of the cell; the rest separates neighbouring squares.
_SIDE: Final = 0.92
#: Colour of each letter in ``Grid.letters``; all are light, so that letters are legible on them.
_TINTS: Final = ("#cfe3f3", "#f8c9a8", "#f3ecc4", "#e6e8eb", "#d5eadf", "#cfe3f3", "#e3dcec")


def draw(panel: Grid, axes: Axes) -> DrawnSeries:
    """Draw the cells with letters, and the names of rows and columns; return an empty list."""
    axes.grid(visible=False)
    for row, cells in enumerate(panel.cells):
        for column, letter in enumerate(cells):
            if letter:
                colour = _TINTS[panel.letters.index(letter[0]) % len(_TINTS)]
                corner = (column - _SIDE / 2, row - _SIDE / 2)
                axes.add_patch(Rectangle(corner, _SIDE, _SIDE, facecolor=colour, linewidth=0))
                axes.text(column, row, letter, ha="center", va="center", fontsize=style.SMALL_PT)
    name_rows(panel.names, axes)
    axes.set_xlim(-0.55, len(panel.headings) - 0.45)
    axes.set_xticks(range(len(panel.headings)), labels=list(panel.headings))
    axes.tick_params(axis="x", length=0, labeltop=True, labelbottom=False)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(panel.x_label)
    axes.set_title(panel.title, loc="left")
    axes.spines[:].set_visible(False)
    return []
