"""MNIST's own IDX files, plain or gzipped, from a folder that the user has.

IDX is a big-endian magic number and sizes, then unsigned bytes: 2,049 for labels (one size, their
count), 2,051 for images (count, rows, columns); see yann.lecun.com/exdb/mnist.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from experiments.datasets.images import Bytes, Images, held_out
from report.errors import MeasurementError, RecordError
from report.records.files import LARGEST_UNPACKED, unpacked

#: Its last byte is the number of sizes that follow.
_MAGIC: Final = {"labels": 2049, "images": 2051}
_SIDE: Final = 28

#: Where downloads of MNIST lie below the folder that was named: torchvision's comes second.
_BELOW: Final = (".", "MNIST/raw", "raw")
_FILES: Final = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
#: Mean brightness of MNIST's 60,000 training images; PyTorch's example normalises with it.  Other
#: sets come in the same format and size (Fashion-MNIST: 0.286).
_MEAN: Final = 0.1307
_WHOLE: Final = 60_000
_WORD: Final = 4


#: Of all images, in place of MNIST's own 10,000: as in the source study.
_HELD_OUT: Final = 1_000


class DataSetError(MeasurementError):
    """A file or folder of images cannot be used; the message says where, what, and what should."""


def _refusal(path: Path, place: str, content: str, expected: str) -> DataSetError:
    """One sentence; ``place`` is a byte, or empty for the file as a whole."""
    where = f"{path}: {place}" if place else f"{path}"
    return DataSetError(f"{where}: found {content}, expected {expected}.")


def mnist(folder: Path) -> Images:
    """MNIST, ``(28, 28)`` an image, from IDX files in ``folder``; 1,000 images are held out.

    Raises ``DataSetError`` that names the file, the place in it, what was found there and what was
    expected.
    """
    found = {name: path for name in _FILES if (path := _find(folder, name))}
    if lacking := [name for name in _FILES if name not in found]:
        content = f"no {' and no '.join(lacking)}" if folder.is_dir() else "no folder"
        raise _refusal(folder, "", content, "all four files of MNIST, each plain or .gz")
    files = tuple(found.values())
    pixels, labels = zip(*(_read(*files[at : at + 2]) for at in (0, 2)), strict=True)
    _check_brightness(pixels[0], files[0])
    source = f"MNIST from the IDX files {', '.join(path.name for path in files)}"
    return held_out("mnist", source, np.concatenate(pixels), np.concatenate(labels), _HELD_OUT)


def _find(folder: Path, name: str) -> Path | None:
    """The first there is, plain before gzipped; some archives write a point before ``idx``."""
    names = [n + end for n in (name, name.replace("-idx", ".idx")) for end in ("", ".gz")]
    places = (folder / below / n for below in _BELOW for n in names)
    return next((place for place in places if place.is_file()), None)


def _read(images: Path, labels: Path) -> tuple[Bytes, Bytes]:
    pixels, digits = idx("images", images), idx("labels", labels)
    if len(pixels) != len(digits):
        wanted = f"{len(pixels):,}, one for each image in {images.name}"
        raise _refusal(labels, "byte 4", f"a count of {len(digits):,} labels", wanted)
    return pixels, digits


def idx(kind: str, path: Path) -> Bytes:
    """Images ``(N, 28, 28)`` or labels ``(N,)`` from 0 to 9, unpacked if the file is gzipped.

    Raises ``DataSetError`` for a file of another format, an empty, truncated or overlong one, and
    images of another size.
    """
    try:
        with path.open("rb") as stream:
            packed = stream.read(LARGEST_UNPACKED + 1)
        content = unpacked(packed, str(path), "a whole gzip file of MNIST's size is expected")
    except RecordError as error:
        raise DataSetError(str(error)) from error
    except OSError as error:
        raise DataSetError(f"{path}: cannot be read ({error.strerror or error}).") from error
    magic = _MAGIC[kind]
    header = _WORD * (1 + magic % 256)
    number, *shape = (int.from_bytes(content[at : at + _WORD]) for at in range(0, header, _WORD))
    if number != magic:
        wanted = f"the magic number {magic:,} of MNIST's files"
        raise _refusal(path, "byte 0", f"the number {number:,}", wanted)
    if len(content) < header or not shape[0]:
        raise _refusal(
            path, f"byte {_WORD}", "no entry", f"a header of {header} bytes with a count"
        )
    if shape[1:] not in ([], [_SIDE, _SIDE]):
        sides = "×".join(f"{side:,}" for side in shape[1:])
        raise _refusal(path, "byte 8", f"images of {sides} pixels", f"MNIST's {_SIDE}×{_SIDE}")
    whole = header + prod(shape)
    if len(content) != whole:
        wanted = f"{whole:,} bytes, as its header announces {shape[0]:,} entries"
        raise _refusal(path, "", f"{len(content):,} bytes", wanted)
    values = np.frombuffer(content, np.uint8, offset=header).reshape(shape)
    if kind == "labels" and (wrong := np.flatnonzero(values > 9)).size:
        place, label = f"byte {header + wrong[0]:,}", values[wrong[0]]
        raise _refusal(path, place, f"the label {label}", "a digit from 0 to 9")
    return values


def _check_brightness(pixels: Bytes, path: Path) -> None:
    """Refuse another set in MNIST's clothes, where all 60,000 training images are there."""
    mean = float(pixels.mean()) / 255
    if len(pixels) == _WHOLE and abs(mean - _MEAN) > 0.001:
        found = f"{_WHOLE:,} images with a mean brightness of {mean:.4f}"
        expected = f"MNIST's {_MEAN} (Fashion-MNIST and others come in the same format)"
        raise _refusal(path, "", found, expected)
