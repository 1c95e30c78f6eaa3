"""MNIST's own IDX files from a folder that the user has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from experiments.datasets import idx
from experiments.datasets.files import first_file, read
from experiments.datasets.images import Bytes, Images, Split
from experiments.datasets.refusal import refusal
from experiments.datasets.small_digits import DIGITS, digits

#: Where downloads of MNIST lie below the folder that was named: torchvision's comes second.
_BELOW: Final = (".", "MNIST/raw", "raw", "mnist", "MNIST")
_PREFIXES: Final = {"train": "train", "test": "t10k"}
_KINDS: Final = {"images": "idx3", "labels": "idx1"}

#: Mean brightness of MNIST's 60,000 training images; PyTorch's example normalises with it.  Other
#: sets come in the same format and size (Fashion-MNIST: 0.286).
_MEAN: Final = 0.1307
_WHOLE: Final = 60_000


def handwritten(folder: Path | None) -> Images:
    """MNIST from ``folder``, or without one the digits of scikit-learn, scaled to its size."""
    return digits() if folder is None else mnist(folder)


def mnist(folder: Path) -> Images:
    """MNIST, ``(1, 28, 28)`` an image, from IDX files in ``folder``, plain or gzipped.

    Its own split is kept.  Raises ``DataSetError`` that names the file, the place in it, what was
    found there and what was expected.
    """
    if not folder.is_dir():
        raise refusal(folder, "", "a file" if folder.exists() else "nothing", "a folder with MNIST")
    folders = [folder / below for below in _BELOW]
    files = {
        (part, kind): first_file(folders, _idx_names(part, kind))
        for part in _PREFIXES
        for kind in _KINDS
    }
    found = {key: path for key, path in files.items() if path is not None}
    if len(found) < len(files):
        names = [_idx_names(*key)[0] for key, path in files.items() if path is None]
        wanted = "all four files of MNIST, each plain or .gz"
        raise refusal(folder, "", f"no {' and no '.join(names)}", wanted)
    train, test = (_split(found[part, "images"], found[part, "labels"]) for part in _PREFIXES)
    _check_brightness(train.pixels, found["train", "images"])
    source = f"MNIST from the IDX files {', '.join(path.name for path in found.values())}"
    split = (
        f"MNIST's own split is kept: {len(train):,} images to train on, {len(test):,} to test on"
    )
    return Images("mnist", train, test, DIGITS, source, split)


def _idx_names(part: str, kind: str) -> tuple[str, ...]:
    """The spellings that go round."""
    stem, code = f"{_PREFIXES[part]}-{kind}", _KINDS[kind]
    return (f"{stem}-{code}-ubyte", f"{stem}.{code}-ubyte", f"{stem}-{code}.ubyte", stem)


def _split(images: Path, labels: Path) -> Split:
    pixels = idx.images_of(read(images), images)
    named = idx.labels_of(read(labels), labels)
    if len(pixels) != len(named):
        wanted = f"{len(pixels):,}, one for each image in {images.name}"
        raise refusal(labels, "byte 4", f"a count of {len(named):,} labels", wanted)
    return Split(pixels[:, np.newaxis], named)


def _check_brightness(pixels: Bytes, path: Path) -> None:
    """Refuse another set in MNIST's clothes, where all 60,000 training images are there."""
    mean = float(pixels.mean()) / 255
    if len(pixels) == _WHOLE and abs(mean - _MEAN) > 0.001:
        raise refusal(
            path,
            "",
            f"{_WHOLE:,} images with a mean brightness of {mean:.4f}",
            f"MNIST's {_MEAN} (Fashion-MNIST and others come in the same format)",
        )
