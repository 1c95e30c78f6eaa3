"""Small grey images in a grid, each with a word below: a sample of a data set."""

from __future__ import annotations

from dataclasses import dataclass


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
