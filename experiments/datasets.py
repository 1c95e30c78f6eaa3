"""Handwritten digits for training: scikit-learn's (no download), or MNIST from a folder.

MNIST's files have the IDX format, plain or gzipped: a header of a magic number and sizes in 4 bytes
each (big-endian), then an unsigned byte per entry.  The magic number is 2,049 for labels (one size,
the count) and 2,051 for images (three sizes: count, rows, columns); see yann.lecun.com/exdb/mnist.
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

#: Seed of the random split into images for training and for testing.
SEED: Final = 0
#: Of this many images of scikit-learn, one is held out for testing.
_IMAGES_PER_TEST_IMAGE: Final = 5
#: Largest pixel value of scikit-learn's digits.
_BRIGHTEST: Final = 16
#: Height and width of MNIST's images in pixels; scikit-learn's digits are scaled to this size.
_SIDE: Final = 28


@lru_cache(maxsize=1)
def load_handwritten(folder: Path | None) -> Images:
    """Load MNIST from ``folder``, or scikit-learn's digits in MNIST's size if ``folder`` is None.

    The last result is cached, because reading MNIST takes seconds.  Raises ``MeasurementError`` for
    missing or damaged files.
    """
    return load_sklearn_digits() if folder is None else load_mnist(folder)


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

    ``name`` is ``digits`` or ``mnist``.  ``source`` describes origin and processing of the images,
    and ``split`` describes how the images for testing were drawn.
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


def hold_out(name: str, source: str, pixels: ByteArray, labels: ByteArray, count: int) -> Images:
    """Draw ``count`` images for testing, regardless of label; the other images are for training.

    Both groups are in the order of the random permutation.
    """
    total = len(labels)
    # NumPy promises the same random numbers in all versions for RandomState, not for default_rng.
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


def load_sklearn_digits() -> Images:
    """Load 1,797 load_handwritten digits of 8 × 8 pixels, scaled to 28 × 28.

    ``sklearn.datasets.load_digits`` contains the test images of UCI's Optical Recognition of
    Handwritten Digits.  A random fifth of these images is held out for testing.
    """
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    bunch: Any = load_digits()
    labels = bunch.target.astype(np.uint8)
    source = (
        f"load_digits of scikit-learn: {len(labels):,} digits of 8×8 pixels, scaled to "
        f"{_SIDE}×{_SIDE} by bilinear interpolation between pixel centres"
    )
    pixels = bilinear(bunch.images.astype(np.int64), _SIDE, _BRIGHTEST)
    return hold_out("digits", source, pixels, labels, len(labels) // _IMAGES_PER_TEST_IMAGE)


def bilinear(images: NDArray[np.integer], size: int, brightest: int) -> ByteArray:
    """Scale ``(N, n, n)`` with values from 0 to ``brightest`` to ``(N, size, size)``, 0 to 255.

    Interpolation is bilinear between pixel centres, with edge pixels continued outwards, as in
    ``torch.nn.functional.interpolate(mode="bilinear", align_corners=False)``.  Integer arithmetic
    with one rounding (half upwards) makes the result the same on all machines.
    """
    old_size = images.shape[-1]
    # The centre of new pixel i is at (i + 1/2) * old_size / size - 1/2, measured in old pixels.
    # Lengths are multiplied by ``unit``, so that they are integers.
    unit = 2 * size
    centres = np.clip((2 * np.arange(size) + 1) * old_size - size, 0, unit * (old_size - 1))
    # The weight of an old pixel falls linearly with its distance, to 0 at one old pixel.
    weights = np.maximum(0, unit - np.abs(centres[:, np.newaxis] - unit * np.arange(old_size)))
    sums = weights @ images.astype(np.int64) @ weights.T
    divisor = unit**2 * brightest
    # 255 * sums / divisor, rounded half upwards.
    scaled: ByteArray = ((2 * 255 * sums + divisor) // (2 * divisor)).astype(np.uint8)
    return scaled


#: Magic numbers of IDX files; the last byte of each is the number of sizes in the header.
_MAGIC: Final = {"labels": 2049, "images": 2051}

#: Subfolders in which MNIST's files are searched; torchvision stores files in the second.
_SUBFOLDERS: Final = (".", "MNIST/raw", "raw")
_FILES: Final = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
#: Mean brightness of MNIST's training images (0 black, 1 brightest), from PyTorch's MNIST example.
#: Data sets of the same format and size have another mean (Fashion-MNIST: 0.286).
_MNIST_MEAN: Final = 0.1307
_TRAINING_IMAGES: Final = 60_000
#: Size (B) of each number in a header.
_HEADER_WORD: Final = 4
#: Number of images held out for testing, as in the source study; MNIST itself has 10,000.
_MNIST_HELD_OUT: Final = 1_000


def _check(valid: bool, place: str | Path, actual: str, expected: str) -> None:
    """Raise ``MeasurementError`` unless ``valid``; ``place`` is a file or folder."""
    if not valid:
        raise MeasurementError(f"{place}: found {actual}, expected {expected}.")


def load_mnist(folder: Path) -> Images:
    """Load MNIST from the IDX files in ``folder``; 1,000 images are held out for testing.

    Raises ``MeasurementError`` with the file, the byte, and the actual and expected content.
    """
    paths, missing_files = [], []
    for name in _FILES:
        if path := _find(folder, name):
            paths.append(path)
        else:
            missing_files.append(f"no {name}")
    actual = " and ".join(missing_files) if folder.is_dir() else "no folder"
    _check(not missing_files, folder, actual, "all four files of MNIST, each plain or .gz")
    train_images, train_labels, test_images, test_labels = paths
    train, test = _read(train_images, train_labels), _read(test_images, test_labels)
    mean = float(train.pixels.mean()) / 255
    _check(
        len(train.pixels) != _TRAINING_IMAGES or abs(mean - _MNIST_MEAN) <= 0.001,
        train_images,
        f"{_TRAINING_IMAGES:,} images with a mean brightness of {mean:.4f}",
        f"MNIST's {_MNIST_MEAN} (Fashion-MNIST and others come in the same format)",
    )
    source = f"MNIST from the IDX files {', '.join(path.name for path in paths)}"
    pixels, labels = map(np.concatenate, zip(train, test, strict=True))
    return hold_out("mnist", source, pixels, labels, _MNIST_HELD_OUT)


def _find(folder: Path, name: str) -> Path | None:
    """Find a file, plain or gzipped; some archives write ``.idx`` instead of ``-idx``."""
    dotted = name.replace("-idx", ".idx")
    for subfolder in _SUBFOLDERS:
        for candidate in (name, f"{name}.gz", dotted, f"{dotted}.gz"):
            path = folder / subfolder / candidate
            if path.is_file():
                return path
    return None


def _read(images: Path, labels: Path) -> Split:
    """Read images and labels; raise ``MeasurementError`` if their counts differ."""
    split = Split(read_idx("images", images), read_idx("labels", labels))
    count, image_count = len(split.labels), len(split.pixels)
    expected = f"{image_count:,}, one for each image in {images.name}"
    _check(count == image_count, f"{labels}: byte 4", f"a count of {count:,} labels", expected)
    return split


def read_idx(kind: str, path: Path) -> ByteArray:
    """Read an IDX file; ``kind`` is ``images`` ``(N, 28, 28)`` or ``labels`` ``(N,)`` from 0 to 9.

    Raises ``MeasurementError`` for a file that cannot be read or has another format, for images of
    another size, for labels above 9, and for an empty, truncated or overlong file.
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
    # Numbers beyond the end of a truncated file become 0.
    number, *shape = (
        int.from_bytes(content[at : at + _HEADER_WORD]) for at in range(0, header, _HEADER_WORD)
    )
    expected = f"the magic number {magic:,} of MNIST's files"
    _check(number == magic, f"{path}: byte 0", f"the number {number:,}", expected)
    expected = f"a header of {header} bytes with a count"
    _check(all(shape), f"{path}: byte {_HEADER_WORD}", "no entry", expected)
    sides = "×".join(f"{side:,}" for side in shape[1:])
    is_usual_size = shape[1:] in ([], [_SIDE, _SIDE])  # labels have no sides
    expected = f"MNIST's {_SIDE}×{_SIDE}"
    _check(is_usual_size, f"{path}: byte 8", f"images of {sides} pixels", expected)
    size = header + prod(shape)
    expected = f"{size:,} bytes, as its header announces {shape[0]:,} entries"
    _check(len(content) == size, path, f"{len(content):,} bytes", expected)
    values = np.frombuffer(content, np.uint8, offset=header).reshape(shape)
    if kind == "labels":
        index = values.argmax()
        place, actual = f"{path}: byte {header + index:,}", f"the label {values[index]}"
        _check(values[index] <= 9, place, actual, "a digit from 0 to 9")
    return values
