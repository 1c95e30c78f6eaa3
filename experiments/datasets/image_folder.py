"""Photographs in a folder, a folder a class, as Imagenette and ImageNet lie on a disk.

``DIR/train/<class>/<image>`` or ``DIR/<class>/<image>``, JPEG or PNG.  Nothing is read beyond the
head of each file until training asks for it.

Of each image a random square is cut out, of 8 to 100 % of the area of the largest one, scaled,
mirrored half of the time, and normalised with ImageNet's mean and deviation.  Images are drawn with
replacement, so that a small folder serves any number of steps.  A file that cannot be decoded ends
the case with one sentence.
Imports torch.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias, cast

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

from experiments.datasets.images import DataSetError, refusal, system_errors_named

EXTENSIONS: Final = (".jpeg", ".jpg", ".png")
INSTALL: Final = "python -m pip install -e '.[photographs]'"

#: Of a JPEG and a PNG image.
_HEADS: Final = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")
_TRAIN: Final = "train"


@dataclass(frozen=True)
class Photograph:
    """A file with the number of its class."""

    path: Path
    label: int


@dataclass(frozen=True)
class Photographs:
    """The classes by name, in order, and every image, class after class."""

    classes: tuple[str, ...]
    images: tuple[Photograph, ...]


@lru_cache(maxsize=1)
def photographs(folder: Path) -> Photographs:
    """What ``folder`` holds; each file's first bytes are read, and kept between cases.

    Raises ``DataSetError`` for a folder without classes, a class without images, a file that is
    no image although its name says so, and where nothing is installed that decodes photographs.
    """
    _require_pillow()
    with system_errors_named(folder):
        root = folder / _TRAIN if (folder / _TRAIN).is_dir() else folder
        classes = tuple(path for path in sorted(root.iterdir()) if _is_class(path))
        if not classes:
            raise refusal(root, "", "no folder with images", "a folder for each class")
        images = tuple(
            Photograph(path, label)
            for label, folder_of_class in enumerate(classes)
            for path in _files(folder_of_class)
        )
        for image in images:
            _check(image.path)
    return Photographs(tuple(path.name for path in classes), images)


def identity(found: Photographs) -> bytes:
    """Which images they were, as JSON: classes with their counts, and a digest of names and sizes.

    The digest goes over ``class/name size``, not over contents, which may be many gigabytes.
    """
    digest = hashlib.sha256()
    counts = dict.fromkeys(found.classes, 0)
    for image in found.images:
        name = found.classes[image.label]
        counts[name] += 1
        digest.update(f"{name}/{image.path.name} {image.path.stat().st_size}\n".encode())
    contents = {
        "classes": counts,
        "images": len(found.images),
        "sha256_of_names_and_sizes": digest.hexdigest(),
    }
    return json.dumps(contents, ensure_ascii=False, indent=1).encode() + b"\n"


def _is_class(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".") and path.name != "val"


def _files(folder: Path) -> Iterator[Path]:
    files = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in EXTENSIONS]
    if not files:
        raise refusal(folder, "", "no image", f"files ending in {', '.join(EXTENSIONS)}")
    yield from files


def _check(path: Path) -> None:
    with path.open("rb") as stream:
        head = stream.read(8)
    if not head.startswith(_HEADS):
        what = f"the bytes {head[:4].hex(' ')}" if head else "an empty file"
        raise refusal(path, "byte 0", what, "the head of a JPEG or PNG image")


def _require_pillow() -> None:
    """Raise ``DataSetError`` with the line that installs what decodes photographs."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise DataSetError(
            f"Photographs are decoded by Pillow, which is not there; install it with: {INSTALL}"
        ) from error


# ------------------------------------------------------------------------------------- the loader

#: Of ImageNet, in shares of the brightest value (PyTorch's ImageNet example).
MEAN: Final = (0.485, 0.456, 0.406)
DEVIATION: Final = (0.229, 0.224, 0.225)

#: The smallest part of the largest square that is cut out.
_AREA: Final = 0.08

#: A decoded image with its label, or a sentence on why there is none.
_Item: TypeAlias = tuple[torch.Tensor, int] | str
Batch: TypeAlias = tuple[torch.Tensor, torch.Tensor]


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
