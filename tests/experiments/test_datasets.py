"""Digits from scikit-learn and MNIST from a folder, whose every broken file gets one sentence."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import datasets
from experiments.datasets import handwritten, mnist
from report.errors import MeasurementError
from tests.experiments.conftest import measured

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def images(count: int, seed: int = 1, side: int = 28) -> Any:
    return np.random.RandomState(seed).randint(0, 256, (count, side, side)).astype(np.uint8)


def labels(count: int) -> Any:
    return (np.arange(count) % 10).astype(np.uint8)


def idx(array: Any) -> bytes:
    """Images or labels with their header, written here apart from what reads them."""
    magic = {1: 2049, 3: 2051}[array.ndim]
    return struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + bytes(array.tobytes())


#: 20 images to train on, and 10 others to test on.
FILES = {
    IMAGES: idx(images(20)),
    LABELS: idx(labels(20)),
    "t10k-images-idx3-ubyte": idx(images(10, 2)),
    "t10k-labels-idx1-ubyte": idx(labels(10)),
}
WHOLE = FILES[IMAGES]


def written(folder: Path, packed: bool = False, **changed: bytes) -> Path:
    """A folder with the files, of which some are ``changed``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**FILES, **changed}.items():
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)
    return folder


def refused(folder: Path) -> str:
    """The sentence, which begins with the folder; that is cut off."""
    with pytest.raises(MeasurementError) as caught:
        mnist(folder)
    sentence = str(caught.value)
    assert sentence.isprintable() and sentence.startswith(str(folder))
    return sentence.removeprefix(str(folder)).lstrip("/")


def test_the_digits_are_the_same_bytes_everywhere() -> None:
    """Nothing in them depends on how a machine rounds or on the version of NumPy."""
    pytest.importorskip("sklearn")
    found = json.loads(handwritten(None).identity)
    assert found["digest"] == "6d88521e7f44b639579811aaba317eddfdcb408406281639778baebfc71d714e"
    assert (found["train"], found["test"]) == ({"images": 1438}, {"images": 359})


@pytest.mark.parametrize("packed", [False, True])
def test_all_images_are_there_once_with_their_labels(
    tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "_HELD_OUT", 4)
    found = mnist(written(tmp_path, packed))
    order = np.random.RandomState(0).permutation(30)
    assert np.array_equal([*found.test.labels, *found.train.labels], (order % 20) % 10)
    pixels = np.concatenate([images(20), images(10, 2)])
    assert np.array_equal(found.test.pixels, pixels[order[:4]])
    assert np.array_equal(found.train.pixels, pixels[order[4:]])
    assert all(name in found.source for name in FILES) and str(tmp_path) not in found.source


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "content", "place", "words"),
    [
        (IMAGES, b"", "byte 0", "the number 0,"),
        (IMAGES, WHOLE[:10], "byte 4", "a header of 16 bytes"),
        (IMAGES, WHOLE[:5000], "found 5,000 bytes", "expected 15,696 bytes"),
        (IMAGES, WHOLE + bytes(2), "found 15,698 bytes", "20 entries"),
        (IMAGES, b"\x89PNG\r\n\x1a\n" + bytes(50), "byte 0", "the number 2,303,741,511"),
        (IMAGES, idx(labels(20)), "byte 0", "the number 2,049"),
        (IMAGES, idx(images(5, side=32)), "byte 8", "32×32"),
        (IMAGES, idx(images(0)), "byte 4", "no entry"),
        (IMAGES, WHOLE[:4] + b"\xff\xff\xff\xff" + WHOLE[8:], "found 15,696", "4,294,967,295 entr"),
        (LABELS, idx(labels(21)), "byte 4", "a count of 21 labels, expected 20"),
        (LABELS, FILES[LABELS][:15] + b"\x1a" + bytes(12), "byte 15", "the label 26"),
    ],
)
def test_a_broken_file(
    tmp_path: Path, packed: bool, name: str, content: bytes, place: str, words: str
) -> None:
    sentence = refused(written(tmp_path, packed, **{name: content}))
    assert sentence.startswith(f"{name}{'.gz' if packed else ''}: {place}")
    assert words in sentence


def test_a_folder_that_is_not_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "found no folder" in refused(tmp_path / "absent")
    assert f"found no {IMAGES} and no {LABELS}" in refused(tmp_path)
    (written(tmp_path) / LABELS).unlink()
    assert f"found no {LABELS}," in refused(tmp_path)
    # Fashion-MNIST has the same format and the same counts; it is brighter.
    monkeypatch.setattr(datasets, "_WHOLE", 20)
    assert "a mean brightness of 0.5020, expected MNIST's 0.1307" in refused(written(tmp_path))


def test_a_broken_data_set_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    folder = written(tmp_path / "broken", **{IMAGES: WHOLE[:-1]})
    with pytest.raises(MeasurementError, match=IMAGES) as told:
        measured("backend_speedup", tmp_path / "records", "--data", str(folder))
    assert "\n" not in str(told.value) and not (tmp_path / "records").exists()
