"""Files of images as they go round, written here apart from what reads them."""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.datasets import DataSetError, Images

IDX = {
    ("train", "images"): "train-images-idx3-ubyte",
    ("train", "labels"): "train-labels-idx1-ubyte",
    ("test", "images"): "t10k-images-idx3-ubyte",
    ("test", "labels"): "t10k-labels-idx1-ubyte",
}


def refused(read: Callable[..., Images], folder: Path) -> str:
    """The sentence, which must be one and name the folder, and which is cut off."""
    with pytest.raises(DataSetError) as caught:
        read(folder)
    sentence = str(caught.value)
    assert sentence.isprintable() and sentence.startswith(str(folder))
    assert re.search(r": found .+, expected .+\.$|cannot be (read|unpacked)", sentence)
    return sentence.removeprefix(str(folder)).lstrip("/")


def some_images(count: int, seed: int = 0, shape: tuple[int, ...] = (28, 28)) -> Any:
    return np.random.RandomState(seed).randint(0, 256, (count, *shape)).astype(np.uint8)


def some_labels(count: int) -> Any:
    return (np.arange(count) % 10).astype(np.uint8)


def idx_images(images: Any) -> bytes:
    header = struct.pack(">4I", 2051, *images.shape)
    return header + bytes(images.tobytes())


def idx_labels(labels: Any) -> bytes:
    return struct.pack(">2I", 2049, len(labels)) + bytes(map(int, labels))


def write_idx(folder: Path, train: int = 20, test: int = 10, packed: bool = False) -> Path:
    """The four files, with other images to test on."""
    folder.mkdir(parents=True, exist_ok=True)
    for (part, kind), name in IDX.items():
        count, seed = (train, 1) if part == "train" else (test, 2)
        images = kind == "images"
        content = idx_images(some_images(count, seed)) if images else idx_labels(some_labels(count))
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)
    return folder
