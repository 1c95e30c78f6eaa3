"""Batches of photographs from a real loader, as training on ImageNet uses one; imports torch.

Of each image a random square is cut out, of 8 to 100 % of the area of the largest one, scaled,
mirrored half of the time, and normalised with ImageNet's mean and deviation.  Images are drawn with
replacement, so that a small folder serves any number of steps.  A file that cannot be decoded ends
the case with one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, TypeAlias, cast

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

from experiments.datasets.image_folder import Photograph, Photographs
from experiments.datasets.images import DataSetError
from experiments.harness.training_step import Batch

#: Of ImageNet, in shares of the brightest value (PyTorch's ImageNet example).
MEAN: Final = (0.485, 0.456, 0.406)
DEVIATION: Final = (0.229, 0.224, 0.225)

#: The smallest part of the largest square that is cut out.
_AREA: Final = 0.08

#: A decoded image with its label, or a sentence on why there is none.
_Item: TypeAlias = tuple[torch.Tensor, int] | str


def batches(
    found: Photographs, batch: int, size: int, *, workers: int, seed: int, pinned: bool
) -> Iterator[Batch]:
    """Batches ``(batch, 3, size, size)`` with labels, decoded by ``workers`` processes, for ever.

    The same seed gives the same batches.  Raises ``DataSetError`` where a file cannot be decoded.
    """
    drawn = torch.Generator().manual_seed(seed)
    dataset = _Decoded(found.images, size)
    loader = DataLoader(
        dataset,
        batch_size=batch,
        sampler=RandomSampler(dataset, replacement=True, num_samples=2**40, generator=drawn),
        num_workers=workers,
        collate_fn=_stacked,
        pin_memory=pinned,
        generator=drawn,
    )
    for item in loader:
        if isinstance(item, str):
            raise DataSetError(item)
        yield cast(Batch, item)


class _Decoded(Dataset[_Item]):
    """Each photograph, cut and scaled to ``size`` pixels a side."""

    def __init__(self, images: tuple[Photograph, ...], size: int) -> None:
        self._images = images
        self._size = size

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> _Item:
        image = self._images[index]
        try:
            return _decoded(image, self._size), image.label
        except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises of broken files
            # An exception would come out of the worker with its traceback as text.
            return f"{image.path}: cannot be decoded ({str(error).rstrip('.')}); leave it out."


def _decoded(image: Photograph, size: int) -> torch.Tensor:
    """A part of the image, scaled to ``(3, size, size)`` float32 and normalised."""
    from PIL import Image

    with Image.open(image.path) as opened:
        plain = opened.convert("RGB")
    # The loader seeds torch's random numbers in each of its processes.
    area, across, down, mirror = torch.rand(4).tolist()
    side = math.sqrt(_AREA + (1 - _AREA) * area) * min(plain.width, plain.height)
    left, upper = (plain.width - side) * across, (plain.height - side) * down
    box = (left, upper, left + side, upper + side)
    part = plain.resize((size, size), Image.Resampling.BILINEAR, box=box)
    values = torch.from_numpy(np.array(part, np.float32)).permute(2, 0, 1) / 255
    if mirror < 0.5:
        values = values.flip(2)
    mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in (MEAN, DEVIATION))
    return ((values - mean) / deviation).contiguous()


def _stacked(items: list[_Item]) -> Batch | str:
    """A batch, or the first sentence on what could not be decoded."""
    failed = next((item for item in items if isinstance(item, str)), None)
    if failed is not None:
        return failed
    pairs = cast(list[tuple[torch.Tensor, int]], items)
    return torch.stack([image for image, _ in pairs]), torch.tensor([label for _, label in pairs])
