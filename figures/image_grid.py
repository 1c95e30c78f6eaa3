"""Small grey images in a grid, each with a word below: a sample of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes

#: Pixels of the print for one of the image, so that no viewer smooths it.
_ENLARGED: Final = 4
#: Between images and below them, in pixels of an image.
_GAP, _LINE = 3, 9


@dataclass(frozen=True)
class Image:
    """A grey image row by row, 0 for an empty pixel to 255 for a full one, and its label."""

    pixels: bytes
    label: str


@dataclass(frozen=True)
class ImageGrid:
    """Images of ``height`` × ``width`` pixels, row by row in ``columns``; full pixels are black.

    Raises ``ValueError`` if there are no images or their pixels are not as many as that.
    """

    images: tuple[Image, ...]
    height: int
    width: int
    columns: int
    title: str = ""

    def __post_init__(self) -> None:
        sizes = {len(image.pixels) for image in self.images}
        if sizes != {self.height * self.width}:
            raise ValueError(
                f"an image grid needs images of {self.height} × {self.width} pixels, "
                f"found {sorted(sizes)}"
            )


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


def bounds(figure: ImageGrid) -> Sequence[float]:
    """Width and height of the sheet in pixels of an image, for the proportions of a drawing."""
    rows = -(-len(figure.images) // figure.columns)
    width = (figure.width + _GAP) * figure.columns - _GAP
    return width, (figure.height + _LINE) * rows
