"""Files of images as they go round, written here apart from what reads them."""

from __future__ import annotations

import gzip
import pickle
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


def unheard(path: Path, share: float) -> None:
    """An observer that says nothing."""


def refused(read: Callable[..., Images], folder: Path) -> str:
    """The sentence, which must be one and name the folder, and which is cut off."""
    with pytest.raises(DataSetError) as caught:
        read(folder, unheard)
    sentence = str(caught.value)
    assert sentence.isprintable() and sentence.startswith(str(folder))
    assert re.search(r": found .+, expected .+\.$|cannot be read", sentence)
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


def table(images: Any, labels: Any, header: bool = False) -> bytes:
    lines = ["label," + ",".join(f"pixel{n}" for n in range(784))] if header else []
    for image, label in zip(images, labels, strict=True):
        lines.append(",".join([str(label), *map(str, image.reshape(-1).tolist())]))
    return ("\n".join(lines) + "\n").encode()


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


def cifar_batch(count: int, seed: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "batch_label": "some",
        "labels": some_labels(count).tolist(),
        "data": some_images(count, seed, (3072,)),
        "filenames": [f"{n}.png" for n in range(count)],
        **changes,
    }


def write_cifar(folder: Path, count: int = 10, protocol: int = 2) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate([f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]):
        (folder / name).write_bytes(pickle.dumps(cifar_batch(count, seed), protocol))
    return folder


def as_python_2_writes(batch: dict[str, Any]) -> bytes:
    """The opcodes that Python 2 and its NumPy wrote: strings are bytes, of protocol 2."""

    def text(value: bytes) -> bytes:
        return b"T" + struct.pack("<i", len(value)) + value

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    rows, columns = batch["data"].shape
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n"
        + number(0) + b"\x85" + text(b"b") + b"tR("
        + number(1) + number(rows) + number(columns) + b"\x86"
        + b"cnumpy\ndtype\n(" + text(b"u1") + number(0) + number(1) + b"tR("
        + number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
        + b"\x89" + text(batch["data"].tobytes()) + b"tb"
    )  # fmt: skip
    labels = b"](" + b"".join(number(label) for label in batch["labels"]) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + labels + b"u."
