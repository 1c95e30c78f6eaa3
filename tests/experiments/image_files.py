"""MNIST's own files as they go round, written here apart from what reads them."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np

IDX = {
    ("train", "images"): "train-images-idx3-ubyte",
    ("train", "labels"): "train-labels-idx1-ubyte",
    ("test", "images"): "t10k-images-idx3-ubyte",
    ("test", "labels"): "t10k-labels-idx1-ubyte",
}


def some_images(count: int, seed: int = 0, side: int = 28) -> Any:
    return np.random.RandomState(seed).randint(0, 256, (count, side, side)).astype(np.uint8)


def some_labels(count: int) -> Any:
    return (np.arange(count) % 10).astype(np.uint8)


def idx(array: Any) -> bytes:
    """Images or labels with their header."""
    magic = {1: 2049, 3: 2051}[array.ndim]
    return struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + bytes(array.tobytes())


def write_idx(folder: Path, train: int = 20, test: int = 10, packed: bool = False) -> Path:
    """The four files, with other images to test on."""
    folder.mkdir(parents=True, exist_ok=True)
    for (part, kind), name in IDX.items():
        count, seed = (train, 1) if part == "train" else (test, 2)
        content = idx(some_images(count, seed) if kind == "images" else some_labels(count))
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)
    return folder
