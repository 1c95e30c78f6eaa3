"""Digits from scikit-learn and MNIST from a folder, whose every broken file gets one sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from image_files import IDX, idx, some_images, some_labels, write_idx

from experiments.datasets import DataSetError, handwritten
from experiments.datasets import mnist_folder as module
from experiments.datasets.mnist_folder import mnist

IMAGES, LABELS = IDX["train", "images"], IDX["train", "labels"]


def refused(folder: Path) -> str:
    """The sentence, which names the folder, and which is cut off."""
    with pytest.raises(DataSetError) as caught:
        mnist(folder)
    sentence = str(caught.value)
    assert sentence.isprintable() and sentence.startswith(str(folder))
    return sentence.removeprefix(str(folder)).lstrip("/")


def test_the_digits_are_the_same_bytes_everywhere() -> None:
    """Nothing in them depends on how a machine rounds or on the version of NumPy."""
    pytest.importorskip("sklearn")
    found = json.loads(handwritten(None).identity)
    digest = "6d88521e7f44b639579811aaba317eddfdcb408406281639778baebfc71d714e"
    assert (found["digest"], found["train"], found["test"]) == (
        digest, {"images": 1438}, {"images": 359},
    )  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_all_images_are_there_once_with_their_labels(
    tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HELD_OUT", 4)
    images = mnist(write_idx(tmp_path, packed=packed))
    pixels = np.concatenate([images.test.pixels, images.train.pixels])
    order = np.random.RandomState(0).permutation(30)
    assert np.array_equal(pixels, np.concatenate([some_images(20, 1), some_images(10, 2)])[order])
    assert (len(images.test.labels), len(images.train.labels)) == (4, 26)
    labels = np.concatenate([images.test.labels, images.train.labels])
    assert np.array_equal(labels, np.concatenate([some_labels(20), some_labels(10)])[order])
    assert all(name in images.source for name in IDX.values())
    assert str(tmp_path) not in images.source


def test_nothing_there(tmp_path: Path) -> None:
    assert "found no folder" in refused(tmp_path / "absent")
    assert f"found no {IMAGES} and no {LABELS}" in refused(tmp_path)
    (tmp_path / "file").touch()
    assert "found no folder" in refused(tmp_path / "file")
    (write_idx(tmp_path) / LABELS).unlink()
    assert f"found no {LABELS}," in refused(tmp_path)


WHOLE = idx(some_images(20, 1))
ODD_LABELS = some_labels(20)
ODD_LABELS[7] = 26


@pytest.mark.parametrize(
    ("name", "content", "place", "words"),
    [
        (IMAGES, b"", "byte 0", "the number 0,"),
        (IMAGES, WHOLE[:10], "byte 4", "a header of 16 bytes"),
        (IMAGES, WHOLE[:5000], "found 5,000 bytes", "expected 15,696 bytes"),
        (IMAGES, WHOLE + bytes(2), "found 15,698 bytes", "20 entries"),
        (IMAGES, b"\x89PNG\r\n\x1a\n" + bytes(50), "byte 0", "the number 2,303,741,511"),
        (IMAGES, idx(some_labels(20)), "byte 0", "the number 2,049"),
        (IMAGES, idx(some_images(5, side=32)), "byte 8", "32×32"),
        (IMAGES, idx(some_images(0)), "byte 4", "no entry"),
        (IMAGES, WHOLE[:4] + b"\xff\xff\xff\xff" + WHOLE[8:], "found 15,696", "4,294,967,295 entr"),
        (LABELS, idx(some_labels(21)), "byte 4", "a count of 21 labels, expected 20"),
        (LABELS, idx(ODD_LABELS), "byte 15", "the label 26"),
    ],
)
def test_a_broken_file(tmp_path: Path, name: str, content: bytes, place: str, words: str) -> None:
    file = write_idx(tmp_path) / name
    for packed in (False, True):
        file.write_bytes(gzip.compress(content) if packed else content)
        sentence = refused(tmp_path)
        assert sentence.startswith(f"{name}: {place}") and words in sentence


def test_a_small_file_that_unpacks_to_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("report.records.files.LARGEST_UNPACKED", 2**21)
    file = write_idx(tmp_path, packed=True) / f"{IMAGES}.gz"
    file.write_bytes(gzip.compress(bytes(2**23)))
    assert "found more than 2,097,152 B" in refused(tmp_path)


def test_another_set_in_the_clothes_of_mnist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fashion-MNIST has the same format and the same counts; it is brighter."""
    monkeypatch.setattr(module, "_WHOLE", 20)
    sentence = refused(write_idx(tmp_path))
    assert sentence.startswith(IMAGES) and "0.5020" in sentence and "0.1307" in sentence
