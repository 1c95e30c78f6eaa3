"""Load training images in worker processes, as in PyTorch's ImageNet example.

A worker decodes a JPEG file, crops a random part (8 to 100 % of the area, aspect 3:4 to 4:3),
scales the part to a square, mirrors half of all images, and normalizes the pixels, like
torchvision's ``RandomResizedCrop``, ``RandomHorizontalFlip``, ``ToTensor`` and ``Normalize``.
(torchvision cannot be imported with a CPU build of torch.)  The files are scikit-learn's two
photographs, which are scaled and encoded in memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Final

from experiments.harness.study import UnavailableError

if TYPE_CHECKING:
    import torch

#: Number of worker processes, the default of PyTorch's ImageNet example.
WORKERS: Final = 4
#: Number of batches that a worker prepares ahead.
AHEAD: Final = 2
#: Mean and standard deviation for normalizing pixels, near ImageNet's.
_MEAN, _DEVIATION = 0.45, 0.225


@cache
def photographs(side: int) -> tuple[bytes, ...]:
    """Encode the two photographs as JPEG files whose shorter side has ``side`` pixels.

    Raises ``UnavailableError`` without Pillow or scikit-learn.
    """
    try:
        from PIL import Image
        from sklearn.datasets import load_sample_images  # type: ignore[import-untyped]
    except ImportError as error:
        raise UnavailableError(f"{error.name}, which reads images, is not installed.") from error
    files = []
    for pixels in load_sample_images().images:
        image = Image.fromarray(pixels)
        scale = side / min(image.size)
        file, size = BytesIO(), (round(scale * image.width), round(scale * image.height))
        image.resize(size, Image.Resampling.BILINEAR).save(file, "JPEG", quality=75)
        files.append(file.getvalue())
    return tuple(files)


class RandomCrops:
    """Data set of ``count`` random crops of ``image`` × ``image`` pixels.

    The shorter side of the photographs has ``side`` pixels.
    """

    def __init__(self, side: int, image: int, count: int) -> None:
        self.files, self.image, self.count = photographs(side), image, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> torch.Tensor:
        """Return a normalized crop of shape (3, image, image)."""
        import numpy as np
        import torch
        from PIL import Image

        picture = Image.open(BytesIO(self.files[number % len(self.files)])).convert("RGB")
        # Five random numbers from 0 to 1, one for each property of the crop.
        for_area, for_aspect, for_left, for_top, for_mirror = torch.rand(5).tolist()
        area = (0.08 + 0.92 * for_area) * picture.width * picture.height
        aspect = math.exp((2 * for_aspect - 1) * math.log(4 / 3))
        # A crop that does not fit is cut to the picture; torchvision would draw again.
        width = min(picture.width, round(math.sqrt(area * aspect)))
        height = min(picture.height, round(math.sqrt(area / aspect)))
        left = int(for_left * (picture.width - width))
        top = int(for_top * (picture.height - height))
        size = self.image, self.image
        box = left, top, left + width, top + height
        picture = picture.resize(size, Image.Resampling.BILINEAR, box)
        if for_mirror < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()
        return (pixels.float() / 255 - _MEAN) / _DEVIATION


@contextmanager
def batches(side: int, image: int, batch: int, count: int) -> Iterator[Iterator[torch.Tensor]]:
    """Load ``count`` batches of crops in ``WORKERS`` processes, on cores that do not compute.

    torch computes on the first cores, one for each of its threads.  Raises ``UnavailableError`` if
    no core remains for the workers, or if this system cannot assign cores.
    """
    import torch
    from torch.utils.data import DataLoader

    if not hasattr(os, "sched_setaffinity"):
        raise UnavailableError("This system cannot keep the loader off the cores that compute.")
    cores = os.sched_getaffinity(0)
    computing_cores = set(sorted(cores)[: torch.get_num_threads()])
    if computing_cores == cores:
        raise UnavailableError(
            f"The loader needs a core of its own besides {len(computing_cores)} computing threads."
        )
    images = RandomCrops(side, image, count * batch)
    loader: DataLoader[torch.Tensor] = DataLoader(
        images,  # type: ignore[arg-type]
        batch,
        num_workers=WORKERS,
        prefetch_factor=AHEAD,
    )
    try:
        os.sched_setaffinity(0, cores - computing_cores)
        iterator = iter(loader)  # starts the workers, which keep these cores
        os.sched_setaffinity(0, computing_cores)
        yield iterator
        del iterator  # ends the workers
    finally:
        os.sched_setaffinity(0, cores)
