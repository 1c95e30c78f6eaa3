"""MNIST's own IDX files, plain or gzipped, from a folder that the user has.

IDX is a big-endian magic number and sizes, then unsigned bytes: 2,049 for labels (one size, their
count), 2,051 for images (count, rows, columns); see yann.lecun.com/exdb/mnist.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

import numpy as np

from experiments.datasets.images import Bytes, Images, Split
from experiments.datasets.refusal import refusal, system_errors_named
from experiments.datasets.small_digits import DIGITS, digits
from report.records.unpacking import LARGEST_UNPACKED, UnpackingError, gunzip

LABELS_MAGIC: Final = 2049
IMAGES_MAGIC: Final = 2051
SIDE: Final = 28

#: Where downloads of MNIST lie below the folder that was named: torchvision's comes second.
_BELOW: Final = (".", "MNIST/raw", "raw", "mnist", "MNIST")
_PREFIXES: Final = {"train": "train", "test": "t10k"}
_KINDS: Final = {"images": "idx3", "labels": "idx1"}
#: Mean brightness of MNIST's 60,000 training images; PyTorch's example normalises with it.  Other
#: sets come in the same format and size (Fashion-MNIST: 0.286).
_MEAN: Final = 0.1307
_WHOLE: Final = 60_000
_WORD: Final = 4


def handwritten(folder: Path | None) -> Images:
    """MNIST from ``folder``, or without one the digits of scikit-learn, scaled to its size."""
    return digits() if folder is None else mnist(folder)


def mnist(folder: Path) -> Images:
    """MNIST, ``(1, 28, 28)`` an image, from IDX files in ``folder``; its own split is kept.

    Raises ``DataSetError`` that names the file, the place in it, what was found there and what was
    expected.
    """
    if not folder.is_dir():
        raise refusal(folder, "", "a file" if folder.exists() else "nothing", "a folder with MNIST")
    files = {(part, kind): _find(folder, part, kind) for part in _PREFIXES for kind in _KINDS}
    found = {key: path for key, path in files.items() if path is not None}
    if len(found) < len(files):
        lacking = [_spellings(*key)[0] for key in files if key not in found]
        wanted = "all four files of MNIST, each plain or .gz"
        raise refusal(folder, "", f"no {' and no '.join(lacking)}", wanted)
    train, test = (_split(found[part, "images"], found[part, "labels"]) for part in _PREFIXES)
    _check_brightness(train.pixels, found["train", "images"])
    source = f"MNIST from the IDX files {', '.join(path.name for path in found.values())}"
    split = (
        f"MNIST's own split is kept: {len(train):,} images to train on, {len(test):,} to test on"
    )
    return Images("mnist", train, test, DIGITS, source, split)


def _spellings(part: str, kind: str) -> tuple[str, ...]:
    """The names that go round."""
    stem, code = f"{_PREFIXES[part]}-{kind}", _KINDS[kind]
    return (f"{stem}-{code}-ubyte", f"{stem}.{code}-ubyte", f"{stem}-{code}.ubyte", stem)


def _find(folder: Path, part: str, kind: str) -> Path | None:
    """The first there is, plain before gzipped; some archives give each file a folder."""
    names = [name + end for name in _spellings(part, kind) for end in ("", ".gz")]
    places = (folder / below / name for below in _BELOW for name in names)
    return next((p for place in places for p in (place, place / place.name) if p.is_file()), None)


def _split(images: Path, labels: Path) -> Split:
    pixels, named = images_of(_read(images), images), labels_of(_read(labels), labels)
    if len(pixels) != len(named):
        wanted = f"{len(pixels):,}, one for each image in {images.name}"
        raise refusal(labels, "byte 4", f"a count of {len(named):,} labels", wanted)
    return Split(pixels[:, np.newaxis], named)


def _read(path: Path) -> bytes:
    """The content, unpacked if its first bytes say gzip; raises ``DataSetError``."""
    try:
        with system_errors_named(path), path.open("rb") as stream:
            return gunzip(stream.read(LARGEST_UNPACKED + 1))
    except UnpackingError as error:
        found = str(error).removeprefix("found ")
        raise refusal(path, "", found, "a whole gzip file of MNIST's size") from error


def images_of(content: bytes, path: Path) -> Bytes:
    """``(N, 28, 28)`` from the bytes of a file; ``path`` serves the errors.

    Raises ``DataSetError`` for an empty, truncated or overlong file, a wrong magic number, and
    images of another size.
    """
    count, *sides = _sizes(content, path, IMAGES_MAGIC, 3)
    if sides != [SIDE, SIDE]:
        found = "×".join(f"{side:,}" for side in sides)
        raise refusal(path, "byte 8", f"images of {found} pixels", f"MNIST's {SIDE}×{SIDE}")
    return _body(content, path, 4 * _WORD, count, SIDE * SIDE).reshape(count, SIDE, SIDE)


def labels_of(content: bytes, path: Path) -> Bytes:
    """``(N,)`` from the bytes of a file, each from 0 to 9; raises as ``images_of`` does."""
    (count,) = _sizes(content, path, LABELS_MAGIC, 1)
    labels = _body(content, path, 2 * _WORD, count, 1)
    wrong = np.flatnonzero(labels > 9)
    if len(wrong):
        first = int(wrong[0])
        place = f"byte {2 * _WORD + first:,}"
        raise refusal(path, place, f"the label {labels[first]}", "a digit from 0 to 9")
    return labels


def _sizes(content: bytes, path: Path, magic: int, sizes: int) -> tuple[int, ...]:
    """The sizes after the magic number, the count first."""
    wanted = f"the magic number {magic:,} of MNIST's files"
    if not content:
        raise refusal(path, "byte 0", "an empty file", wanted)
    header = _WORD * (1 + sizes)
    if len(content) >= _WORD and (found := int.from_bytes(content[:_WORD])) != magic:
        raise refusal(path, "byte 0", f"the number {found:,}", wanted)
    if len(content) < header:
        end = f"byte {len(content)}"
        raise refusal(path, end, "the end of the file", f"a header of {header} bytes")
    values: tuple[int, ...] = struct.unpack(f">{sizes}I", content[_WORD:header])
    if values[0] == 0:
        raise refusal(path, f"byte {_WORD}", "a count of 0", "at least one entry")
    return values


def _body(content: bytes, path: Path, header: int, count: int, each: int) -> Bytes:
    """What follows the header; it must be as long as the header says, no more and no less."""
    whole = header + count * each
    announced = f"{whole:,} bytes, as its header announces {count:,} entries of {each:,}"
    if len(content) < whole:
        raise refusal(path, f"byte {len(content):,}", "the end of the file", announced)
    if len(content) > whole:
        raise refusal(path, f"byte {whole:,}", f"{len(content) - whole:,} bytes more", announced)
    return np.frombuffer(content, np.uint8, offset=header)


def _check_brightness(pixels: Bytes, path: Path) -> None:
    """Refuse another set in MNIST's clothes, where all 60,000 training images are there."""
    mean = float(pixels.mean()) / 255
    if len(pixels) == _WHOLE and abs(mean - _MEAN) > 0.001:
        found = f"{_WHOLE:,} images with a mean brightness of {mean:.4f}"
        expected = f"MNIST's {_MEAN} (Fashion-MNIST and others come in the same format)"
        raise refusal(path, "", found, expected)
