"""Handwritten digits for training: scikit-learn's (no download), or MNIST from a folder.

MNIST's files have the IDX format, plain or gzipped: a magic number and sizes (big-endian), then
unsigned bytes.  The magic number is 2,049 for labels (one size, the count) and 2,051 for images
(three sizes: count, rows, columns); see yann.lecun.com/exdb/mnist.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from report.core.errors import MeasurementError, RecordError
from report.core.records.files import LARGEST_UNPACKED, unpacked

ByteArray: TypeAlias = NDArray[np.uint8]

#: Seed of the random split into training and testing.
SEED: Final = 0
#: One of this many digits of scikit-learn is held out for testing.
_DIGITS_PER_TEST_DIGIT: Final = 5
#: Largest pixel value of scikit-learn's digits.
_BRIGHTEST: Final = 16
#: Height and width of MNIST's images in pixels; scikit-learn's digits are scaled to this size.
_SIDE: Final = 28


@lru_cache(maxsize=1)
def handwritten(folder: Path | None) -> Images:
    """Load MNIST from ``folder``, or scikit-learn's digits in MNIST's size if it is None.

    The result is cached between cases, since reading MNIST takes seconds.  Raises
    ``MeasurementError`` for missing or damaged files.
    """
    return digits() if folder is None else mnist(folder)


class Split(NamedTuple):
    """Images and labels for training or for testing, as unsigned bytes.

    ``pixels`` has the shape (images, height, width) and values from 0 (black) to 255 (brightest);
    ``labels`` has one class per image, numbered from 0.
    """

    pixels: ByteArray
    labels: ByteArray


@dataclass(frozen=True, eq=False)
class Images:
    """Labelled images for training and for testing.

    ``name`` is a slug.  ``source`` (origin and processing of the images) and ``split`` (how the two
    parts were drawn) are clauses of a sentence.
    """

    name: str
    source: str
    train: Split
    test: Split
    split: str

    @property
    def identity(self) -> bytes:
        """JSON that identifies the images: counts, and the SHA-256 of all shapes and bytes."""
        digest = hashlib.sha256()
        for pixels, labels in (self.train, self.test):
            # The channel axis keeps the hash equal to the one in the oldest records.
            for array in (pixels[:, np.newaxis], labels):
                digest.update(f"{array.shape}".encode())
                digest.update(array.tobytes())
        content = {
            "name": self.name,
            "source": self.source,
            "split": self.split,
            "classes": list("0123456789"),
            "digest": digest.hexdigest(),
            "train": {"images": len(self.train.labels)},
            "test": {"images": len(self.test.labels)},
        }
        return json.dumps(content, sort_keys=True).encode() + b"\n"


def held_out(name: str, source: str, pixels: ByteArray, labels: ByteArray, count: int) -> Images:
    """Draw ``count`` images for testing, regardless of label; the others are for training.

    Both parts are in the order of the random permutation.
    """
    total = len(labels)
    # NumPy promises a stable random stream for RandomState, but not for default_rng.
    order = np.random.RandomState(SEED).permutation(total)
    test, train = order[:count], order[count:]
    return Images(
        name,
        source,
        train=Split(pixels[train], labels[train]),
        test=Split(pixels[test], labels[test]),
        split=(
            f"{count:,} of {total:,} images, drawn at random (seed {SEED}), "
            "are held out for testing"
        ),
    )


def digits() -> Images:
    """Load 1,797 handwritten digits of 8 × 8 pixels, scaled to 28 × 28.

    ``sklearn.datasets.load_digits`` has the test part of UCI's Optical Recognition of Handwritten
    Digits.  A random fifth of these digits is held out for testing.
    """
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    bunch: Any = load_digits()
    labels = bunch.target.astype(np.uint8)
    source = (
        f"load_digits of scikit-learn: {len(labels):,} digits of 8×8 pixels, scaled to "
        f"{_SIDE}×{_SIDE} by bilinear interpolation between pixel centres"
    )
    pixels = bilinear(bunch.images.astype(np.int64), _SIDE, _BRIGHTEST)
    return held_out("digits", source, pixels, labels, len(labels) // _DIGITS_PER_TEST_DIGIT)


def bilinear(images: NDArray[np.integer], size: int, brightest: int) -> ByteArray:
    """Scale ``(N, n, n)`` with values from 0 to ``brightest`` to ``(N, size, size)``, 0 to 255.

    Interpolation is bilinear between pixel centres, with edge pixels continued outwards, as in
    ``torch.nn.functional.interpolate(mode="bilinear", align_corners=False)``.  Integer arithmetic
    with one rounding (half upwards) makes the result the same on all machines.
    """
    old = images.shape[-1]
    # In old pixels, the centre of new pixel i is at (i + 1/2) * old / size - 1/2; ``centres`` are
    # in units of 1 / unit.  The weight of an old pixel falls linearly with the distance from it.
    unit = 2 * size
    centres = np.clip((2 * np.arange(size) + 1) * old - size, 0, unit * (old - 1))
    weights = np.maximum(0, unit - np.abs(centres[:, np.newaxis] - unit * np.arange(old)))
    sums = weights @ images.astype(np.int64) @ weights.T
    divisor = unit**2 * brightest
    scaled: ByteArray = ((2 * 255 * sums + divisor) // (2 * divisor)).astype(np.uint8)
    return scaled


# ------------------------------------------------------------------------------- MNIST's own files

#: Magic numbers of IDX files; the last byte is the number of sizes in the header.
_MAGIC: Final = {"labels": 2049, "images": 2051}

#: Subfolders in which MNIST's files are searched; torchvision stores them in the second.
_SUBFOLDERS: Final = (".", "MNIST/raw", "raw")
_FILES: Final = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
#: Mean brightness of MNIST's training images, from PyTorch's MNIST example.  Data sets of the same
#: format and size have another mean (Fashion-MNIST: 0.286).
_MNIST_MEAN: Final = 0.1307
_TRAINING_IMAGES: Final = 60_000
#: Bytes of each number in a header.
_HEADER_WORD: Final = 4
#: Images held out for testing: the source study's number, not MNIST's own 10,000.
_MNIST_HELD_OUT: Final = 1_000


def _check(valid: bool, place: str | Path, actual: str, expected: str) -> None:
    """Raise ``MeasurementError`` unless ``valid``; ``place`` is a file or folder."""
    if not valid:
        raise MeasurementError(f"{place}: found {actual}, expected {expected}.")


def mnist(folder: Path) -> Images:
    """Load MNIST from the IDX files in ``folder``; 1,000 images are held out for testing.

    Raises ``MeasurementError`` with the file, the byte, and the actual and expected content.
    """
    paths, absent = [], []
    for name in _FILES:
        if path := _find(folder, name):
            paths.append(path)
        else:
            absent.append(f"no {name}")
    actual = " and ".join(absent) if folder.is_dir() else "no folder"
    _check(not absent, folder, actual, "all four files of MNIST, each plain or .gz")
    train, test = (_read(*paths[at : at + 2]) for at in (0, 2))
    mean = float(train.pixels.mean()) / 255
    _check(
        len(train.pixels) != _TRAINING_IMAGES or abs(mean - _MNIST_MEAN) <= 0.001,
        paths[0],
        f"{_TRAINING_IMAGES:,} images with a mean brightness of {mean:.4f}",
        f"MNIST's {_MNIST_MEAN} (Fashion-MNIST and others come in the same format)",
    )
    source = f"MNIST from the IDX files {', '.join(path.name for path in paths)}"
    pixels, labels = map(np.concatenate, zip(train, test, strict=True))
    return held_out("mnist", source, pixels, labels, _MNIST_HELD_OUT)


def _find(folder: Path, name: str) -> Path | None:
    """Find a file, plain or gzipped; some archives write ``.idx`` instead of ``-idx``."""
    names = [n + end for n in (name, name.replace("-idx", ".idx")) for end in ("", ".gz")]
    places = (folder / below / n for below in _SUBFOLDERS for n in names)
    return next((place for place in places if place.is_file()), None)


def _read(images: Path, labels: Path) -> Split:
    """Read images and labels; raise ``MeasurementError`` if their counts differ."""
    split = Split(idx("images", images), idx("labels", labels))
    count, wanted = len(split.labels), len(split.pixels)
    expected = f"{wanted:,}, one for each image in {images.name}"
    _check(count == wanted, f"{labels}: byte 4", f"a count of {count:,} labels", expected)
    return split


def idx(kind: str, path: Path) -> ByteArray:
    """Read an IDX file of ``kind`` images ``(N, 28, 28)`` or labels ``(N,)`` from 0 to 9.

    Raises ``MeasurementError`` for a file of another format, for images of another size, and for
    an empty, truncated or overlong file.
    """
    try:
        with path.open("rb") as stream:
            packed = stream.read(LARGEST_UNPACKED + 1)
        content = unpacked(packed, str(path), "a whole gzip file of MNIST's size is expected")
    except RecordError as error:
        raise MeasurementError(str(error)) from error
    except OSError as error:
        raise MeasurementError(f"{path}: cannot be read ({error.strerror or error}).") from error
    magic = _MAGIC[kind]
    header = _HEADER_WORD * (1 + magic % 256)
    # A number beyond the end of the file is 0.
    number, *shape = (
        int.from_bytes(content[at : at + _HEADER_WORD]) for at in range(0, header, _HEADER_WORD)
    )
    expected = f"the magic number {magic:,} of MNIST's files"
    _check(number == magic, f"{path}: byte 0", f"the number {number:,}", expected)
    expected = f"a header of {header} bytes with a count"
    _check(all(shape), f"{path}: byte {_HEADER_WORD}", "no entry", expected)
    sides = "×".join(f"{side:,}" for side in shape[1:])
    fits = shape[1:] in ([], [_SIDE, _SIDE])
    _check(fits, f"{path}: byte 8", f"images of {sides} pixels", f"MNIST's {_SIDE}×{_SIDE}")
    whole = header + prod(shape)
    expected = f"{whole:,} bytes, as its header announces {shape[0]:,} entries"
    _check(len(content) == whole, path, f"{len(content):,} bytes", expected)
    values = np.frombuffer(content, np.uint8, offset=header).reshape(shape)
    if kind == "labels":
        largest = values.argmax()
        place, actual = f"{path}: byte {header + largest:,}", f"the label {values[largest]}"
        _check(values[largest] <= 9, place, actual, "a digit from 0 to 9")
    return values
