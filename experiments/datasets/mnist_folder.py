"""MNIST from a folder that the user has: its own IDX files, or tables of comma-separated values."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np

from experiments.datasets import idx, labelled_csv
from experiments.datasets.files import Observer, first_file, patiently, read
from experiments.datasets.images import Bytes, Images, Split, held_out
from experiments.datasets.refusal import refusal
from experiments.datasets.small_digits import DIGITS, digits

#: Where downloads of MNIST lie below the folder that was named: torchvision's comes second.
_BELOW: Final = (".", "MNIST/raw", "raw", "mnist", "MNIST")
_TABLES: Final = {
    "train": ("mnist_train.csv", "train.csv"),
    "test": ("mnist_test.csv", "test.csv"),
}
_PREFIXES: Final = {"train": "train", "test": "t10k"}
_KINDS: Final = {"images": "idx3", "labels": "idx1"}

#: Mean brightness of MNIST's 60,000 training images; PyTorch's example normalises with it.  Other
#: sets come in the same format and size (Fashion-MNIST: 0.286).
_MEAN: Final = 0.1307
_WHOLE: Final = 60_000


def handwritten(folder: Path | None, size: int = 28) -> Images:
    """MNIST from ``folder``, or without one the digits of scikit-learn, scaled to ``size``."""
    return digits(size) if folder is None else mnist(folder)


def mnist(folder: Path, observer: Observer | None = None) -> Images:
    """MNIST, ``(1, 28, 28)`` an image, from IDX files or tables in ``folder``, plain or gzipped.

    IDX files are taken where both are there.  MNIST's own split is kept; of tables without labelled
    test images a fifth is held out.  ``observer`` is told how far reading is, by default a bar that
    appears after 2 s.  Raises ``DataSetError`` that names the file, the place in it, what was found
    there and what was expected.
    """
    if observer is None:
        with patiently() as bar:
            return mnist(folder, bar)
    if not folder.is_dir():
        raise refusal(folder, "", "a file" if folder.exists() else "nothing", "a folder with MNIST")
    folders = [folder / below for below in _BELOW]
    if any(first_file(folders, _idx_names(part, kind)) for part in _PREFIXES for kind in _KINDS):
        return _from_idx(folder, folders, observer)
    if table := first_file(folders, _TABLES["train"]):
        return _from_tables(table, first_file(folders, _TABLES["test"]), observer)
    raise refusal(
        folder,
        "",
        "no file of MNIST",
        f"{', '.join(_expected())} or {' or '.join(_TABLES['train'])}, each plain or .gz",
    )


def _idx_names(part: str, kind: str) -> tuple[str, ...]:
    """The spellings that go round."""
    stem, code = f"{_PREFIXES[part]}-{kind}", _KINDS[kind]
    return (f"{stem}-{code}-ubyte", f"{stem}.{code}-ubyte", f"{stem}-{code}.ubyte", stem)


def _expected() -> list[str]:
    return [_idx_names(part, kind)[0] for part in _PREFIXES for kind in _KINDS]


def _from_idx(folder: Path, folders: Iterable[Path], observer: Observer) -> Images:
    files = {
        (part, kind): first_file(folders, _idx_names(part, kind))
        for part in _PREFIXES
        for kind in _KINDS
    }
    found = {key: path for key, path in files.items() if path is not None}
    if len(found) < len(files):
        names = [_idx_names(*key)[0] for key, path in files.items() if path is None]
        raise refusal(folder, "", f"no {' and no '.join(names)}", "all four files of MNIST")
    train, test = (
        _idx_split(found[part, "images"], found[part, "labels"], observer) for part in _PREFIXES
    )
    _check_brightness(train.pixels, found["train", "images"])
    source = f"MNIST from the IDX files {', '.join(path.name for path in found.values())}"
    return _images(train, test, source, _own_split(train, test))


def _idx_split(images: Path, labels: Path, observer: Observer) -> Split:
    pixels = idx.images_of(read(images, observer), images)
    named = idx.labels_of(read(labels, observer), labels)
    if len(pixels) != len(named):
        wanted = f"{len(pixels):,}, one for each image in {images.name}"
        raise refusal(labels, "byte 4", f"a count of {len(named):,} labels", wanted)
    return Split(pixels[:, np.newaxis], named)


def _from_tables(train_file: Path, test_file: Path | None, observer: Observer) -> Images:
    pixels, labels = labelled_csv.read_table(train_file, observer)
    _check_brightness(pixels, train_file)
    if test_file is None or labelled_csv.is_unlabelled(test_file):
        train, test, split = _held_out(pixels, labels, train_file)
        return _images(train, test, f"MNIST from the table {train_file.name}", split)
    train = Split(pixels[:, np.newaxis], labels)
    more, named = labelled_csv.read_table(test_file, observer)
    test = Split(more[:, np.newaxis], named)
    source = f"MNIST from the tables {train_file.name} and {test_file.name}"
    return _images(train, test, source, _own_split(train, test))


def _held_out(pixels: Bytes, labels: Bytes, path: Path) -> tuple[Split, Split, str]:
    if len(labels) < 5:
        raise refusal(path, "", f"{len(labels)} images", "5 or more, so that one can be held out")
    return held_out(pixels[:, np.newaxis], labels)


def _images(train: Split, test: Split, source: str, split: str) -> Images:
    return Images("mnist", train, test, DIGITS, source, split)


def _own_split(train: Split, test: Split) -> str:
    return f"MNIST's own split is kept: {len(train):,} images to train on, {len(test):,} to test on"


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
