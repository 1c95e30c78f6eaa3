"""Photographs in a folder, a folder a class, as Imagenette and ImageNet lie on a disk.

``DIR/train/<class>/<image>`` or ``DIR/<class>/<image>``, JPEG or PNG.  Nothing is read beyond the
head of each file until training asks for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

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
