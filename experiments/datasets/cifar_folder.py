"""CIFAR-10 from the Python files that a user has unpacked (cs.toronto.edu/~kriz/cifar.html)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from experiments.datasets import safe_pickle
from experiments.datasets.files import Observer, first_file, patiently, read
from experiments.datasets.images import Bytes, Images, Split
from experiments.datasets.refusal import refusal

CLASSES: Final = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
SHAPE: Final = (3, 32, 32)
TRAIN: Final = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST: Final = "test_batch"

_VALUES: Final = 3 * 32 * 32
_BELOW: Final = (".", "cifar-10-batches-py")


def cifar10(folder: Path, observer: Observer | None = None) -> Images:
    """CIFAR-10, ``(3, 32, 32)`` an image, from ``data_batch_1`` to ``5`` and ``test_batch``.

    The files lie in ``folder`` or in ``cifar-10-batches-py`` below it.  Its own split is kept.  The
    pickles are read without importing anything that they name.  ``observer`` is told how far
    reading is, by default a bar that appears after 2 s.  Raises ``DataSetError`` that names the
    file, the place in it, what was found there and what was expected.
    """
    if observer is None:
        with patiently() as bar:
            return cifar10(folder, bar)
    files = _files(folder)
    batches = [_batch(path, observer) for path in files]
    train = Split(
        np.concatenate([pixels for pixels, _ in batches[:-1]]),
        np.concatenate([labels for _, labels in batches[:-1]]),
    )
    test = Split(*batches[-1])
    return Images(
        name="cifar10",
        train=train,
        test=test,
        classes=CLASSES,
        source=f"CIFAR-10 from the Python files {', '.join(path.name for path in files)}",
        split=(
            f"CIFAR-10's own split is kept: {len(train):,} images to train on, "
            f"{len(test):,} to test on"
        ),
    )


def _files(folder: Path) -> list[Path]:
    """The five files to train on and the one to test on, in order."""
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing"
        raise refusal(folder, "", found, "a folder with CIFAR-10")
    folders = [folder / below for below in _BELOW]
    files = {name: first_file(folders, [name]) for name in (*TRAIN, TEST)}
    if missing := [name for name, path in files.items() if path is None]:
        wanted = "the unpacked Python version of CIFAR-10: data_batch_1 to 5 and test_batch"
        raise refusal(folder, "", f"no {' and no '.join(missing)}", wanted)
    return [path for path in files.values() if path is not None]


def _batch(path: Path, observer: Observer) -> tuple[Bytes, Bytes]:
    """Images ``(N, 3, 32, 32)`` and labels ``(N,)`` of one file."""
    held = safe_pickle.loads(read(path, observer), path)
    if not isinstance(held, dict):
        raise refusal(path, "", f"a pickled {type(held).__name__}", "a pickled dictionary")
    pixels = _pixels(_entry(held, "data", path), path)
    labels = _labels(_entry(held, "labels", path), path)
    if len(pixels) != len(labels):
        found = f"{len(labels):,} labels for {len(pixels):,} images"
        raise refusal(path, "entry 'labels'", found, "one label for each image")
    return pixels, labels


def _entry(held: Mapping[object, object], name: str, path: Path) -> object:
    """``held[name]``, whose key is bytes if Python 2 wrote it."""
    for key in (name.encode(), name):
        if key in held:
            return held[key]
    keys = [_shown(key) for key in held][:6]
    found = f"entries {', '.join(sorted(keys))}" if keys else "no entry"
    raise refusal(path, "", found, "entries 'data' and 'labels'")


def _shown(value: object) -> str:
    """A key or a label, as far as it can be shown; a pickle may hold anything."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        return ascii(value[:24])
    if isinstance(value, int) and abs(value) < 10**9:
        return str(value)
    return f"an object of type {type(value).__name__}"


def _pixels(value: object, path: Path) -> Bytes:
    pixels = safe_pickle.array_of(value)
    wanted = f"an array of unsigned bytes with {_VALUES:,} values an image"
    if pixels is None:
        raise refusal(path, "entry 'data'", "something else or an array cut short", wanted)
    if pixels.ndim != 2 or pixels.shape[1] != _VALUES or not len(pixels):
        found = f"the shape {'×'.join(f'{side:,}' for side in pixels.shape)}"
        raise refusal(path, "entry 'data'", found, wanted)
    return pixels.reshape(-1, *SHAPE)


def _labels(value: object, path: Path) -> Bytes:
    if not isinstance(value, list):
        raise refusal(path, "entry 'labels'", type(value).__name__, "a list of numbers from 0 to 9")
    for index, label in enumerate(value):
        if type(label) is not int or not 0 <= label <= 9:
            place = f"entry 'labels', item {index:,}"
            raise refusal(path, place, _shown(label), "a whole number from 0 to 9")
    return np.array(value, np.uint8)
