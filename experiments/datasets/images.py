"""Labelled images as one immutable value, how they are split, and which ones they are."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from report.errors import MeasurementError

Bytes: TypeAlias = NDArray[np.uint8]

#: Of a set that comes without a test set, one image in so many is held out.
HELD_OUT: Final = 5
#: Every held-out part is drawn from this seed.
SEED: Final = 0


class DataSetError(MeasurementError):
    """A file or folder of images cannot be used; the message says where, what, and what should."""


def refusal(path: Path, place: str, content: str, expected: str) -> DataSetError:
    """One sentence; ``place`` is a byte, or empty for the file as a whole."""
    where = f"{path}: {place}" if place else f"{path}"
    return DataSetError(f"{where}: found {content}, expected {expected}.")


@dataclass(frozen=True, eq=False)
class Split:
    """Images that serve one purpose, with their labels, both in 8 bits without a sign.

    ``pixels`` has the shape (images, channels, height, width), 0 is black and 255 the brightest;
    ``labels`` has the shape (images,) and counts the classes from 0.
    """

    pixels: Bytes
    labels: Bytes

    def __len__(self) -> int:
        """How many images there are."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Images:
    """A set of labelled images, split into what is trained on and what is tested on.

    ``name`` is a slug; ``source`` says where the images come from and what was done to them, and
    ``split`` how the two parts were made, both as clauses that fit into a sentence.
    """

    name: str
    train: Split
    test: Split
    source: str
    split: str


def held_out(
    pixels: Bytes, labels: Bytes, count: int | None = None, seed: int = SEED
) -> tuple[Split, Split, str]:
    """What to train on, what to test on, and how the two were made, in words.

    ``count`` images, by default a fifth, are drawn without regard to their labels; both parts keep
    the order of the permutation.
    """
    total = len(labels)
    count = total // HELD_OUT if count is None else count
    # RandomState and not default_rng: only its stream is promised to stay the same for ever.
    order = np.random.RandomState(seed).permutation(total)
    test, train = order[:count], order[count:]
    said = f"{count:,} of {total:,} images, drawn at random (seed {seed}), are held out for testing"
    return Split(pixels[train], labels[train]), Split(pixels[test], labels[test]), said


def resplit(images: Images, count: int) -> Images:
    """The same images, all of them, with ``count`` of them held out instead of their own split."""
    train, test, split = held_out(
        np.concatenate([images.train.pixels, images.test.pixels]),
        np.concatenate([images.train.labels, images.test.labels]),
        count,
    )
    return replace(images, train=train, test=test, split=split)


def identity(images: Images) -> bytes:
    """Which images these are, as JSON: counts, and the SHA-256 of all shapes and bytes."""
    digest = hashlib.sha256()
    for array in (images.train.pixels, images.train.labels, images.test.pixels, images.test.labels):
        digest.update(f"{array.shape}".encode())
        digest.update(array.tobytes())
    content = {
        "name": images.name,
        "source": images.source,
        "split": images.split,
        "classes": list("0123456789"),
        "digest": digest.hexdigest(),
        "train": {"images": len(images.train)},
        "test": {"images": len(images.test)},
    }
    return json.dumps(content, sort_keys=True).encode() + b"\n"
