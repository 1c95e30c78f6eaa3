"""Draws small grey images in a grid, each with a word below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from figures.image_grid import ImageGrid

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes

#: Pixels of the print for one of the image, so that no viewer smooths it.
_ENLARGED: Final = 4
#: Between images and below them, in pixels of an image.
_GAP, _LINE = 3, 9


def draw(figure: ImageGrid, axes: Axes) -> None:
    """Draw ``figure`` on ``axes``."""
    rows = -(-len(figure.images) // figure.columns)
    across, down = figure.width + _GAP, figure.height + _LINE
    axes.imshow(
        _sheet(figure, rows, across, down),
        cmap="gray_r",
        vmin=0,
        vmax=255,
        interpolation="none",
        extent=(0, across * figure.columns - _GAP, down * rows, 0),
    )
    for place, image in enumerate(figure.images):
        row, column = divmod(place, figure.columns)
        axes.text(
            column * across + figure.width / 2,
            row * down + figure.height + _LINE / 2,
            image.label,
            ha="center",
            va="center",
        )
    axes.set_axis_off()
    axes.set_title(figure.title, loc="left")


def _sheet(figure: ImageGrid, rows: int, across: int, down: int) -> np.ndarray:
    import numpy as np

    sheet = np.zeros((down * rows, across * figure.columns - _GAP), dtype=np.uint8)
    for place, image in enumerate(figure.images):
        row, column = divmod(place, figure.columns)
        top, left = row * down, column * across
        sheet[top : top + figure.height, left : left + figure.width] = np.frombuffer(
            image.pixels, np.uint8
        ).reshape(figure.height, figure.width)
    return sheet.repeat(_ENLARGED, axis=0).repeat(_ENLARGED, axis=1)
