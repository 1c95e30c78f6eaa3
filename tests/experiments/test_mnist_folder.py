"""MNIST from a folder: every usual form is read back equal, every broken one gets one sentence."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from image_files import (
    IDX,
    idx_images,
    idx_labels,
    refused,
    some_images,
    some_labels,
    write_idx,
)

from experiments.datasets import handwritten, mnist
from experiments.datasets import mnist_folder as module
from experiments.datasets.idx import images_of, labels_of

IMAGES, LABELS = IDX["train", "images"], IDX["train", "labels"]


@pytest.mark.parametrize("packed", [False, True])
def test_its_own_files_keep_their_split(tmp_path: Path, packed: bool) -> None:
    images = mnist(write_idx(tmp_path, packed=packed))
    assert (images.name, images.shape) == ("mnist", (1, 28, 28))
    assert np.array_equal(images.train.pixels[:, 0], some_images(20, 1))
    assert np.array_equal(images.train.labels, some_labels(20))
    assert np.array_equal(images.test.pixels[:, 0], some_images(10, 2))
    assert images.split == "MNIST's own split is kept: 20 images to train on, 10 to test on"
    suffix = ".gz" if packed else ""
    assert images.source == (
        f"MNIST from the IDX files {', '.join(name + suffix for name in IDX.values())}"
    )
    assert str(tmp_path) not in images.source


@pytest.mark.parametrize("below", ["MNIST/raw", "raw", "mnist"])
def test_where_downloads_put_them(tmp_path: Path, below: str) -> None:
    write_idx(tmp_path / below)
    assert len(handwritten(tmp_path).train) == 20


@settings(max_examples=40)
@given(data=st.data())
def test_written_and_read_back(data: st.DataObject) -> None:
    shapes = st.integers(1, 4).map(lambda count: (count, 28, 28))
    images = data.draw(arrays.arrays(np.uint8, shapes))
    labels = data.draw(arrays.arrays(np.uint8, len(images), elements=st.integers(0, 9)))
    assert np.array_equal(images_of(idx_images(images), Path("f")), images)
    assert np.array_equal(labels_of(idx_labels(labels), Path("f")), labels)


def test_nothing_there(tmp_path: Path) -> None:
    assert "found nothing" in refused(mnist, tmp_path / "absent")
    assert f"found no {IMAGES} and no {LABELS}" in refused(mnist, tmp_path)
    (tmp_path / "file").touch()
    assert "found a file" in refused(mnist, tmp_path / "file")
    (write_idx(tmp_path) / LABELS).unlink()
    assert f"found no {LABELS}," in refused(mnist, tmp_path)


CUT = "found the end of the file, expected"
ANNOUNCED = "expected 15,696 bytes, as its header announces 20 entries of 784."
MAGIC = "expected the magic number 2,051 of IDX images."
WHOLE = idx_images(some_images(20, 1))
ODD_LABEL = idx_labels([*some_labels(7), 26, *some_labels(12)])


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (IMAGES, b"", f"byte 0: found an empty file, {MAGIC}"),
        (IMAGES, WHOLE[:3], f"byte 3: {CUT} a header of 16 bytes."),
        (IMAGES, WHOLE[:10], f"byte 10: {CUT} a header of 16 bytes."),
        (IMAGES, WHOLE[:5000], f"byte 5,000: found the end of the file, {ANNOUNCED}"),
        (IMAGES, WHOLE + bytes(2), f"byte 15,696: found 2 bytes more, {ANNOUNCED}"),
        (
            IMAGES,
            b"\x89PNG\r\n\x1a\n" + bytes(50),
            f"byte 0: found the number 2,303,741,511, {MAGIC}",
        ),
        (
            IMAGES,
            idx_labels(some_labels(20)),
            f"byte 0: found the number 2,049 of IDX labels, {MAGIC}",
        ),
        (
            IMAGES,
            idx_images(some_images(5, shape=(32, 32))),
            "byte 8: found images of 32×32 pixels, expected MNIST's 28×28.",
        ),
        (
            IMAGES,
            idx_images(some_images(0)),
            "byte 4: found a count of 0, expected at least one entry.",
        ),
        (
            IMAGES,
            WHOLE[:4] + b"\xff\xff\xff\xff" + WHOLE[8:],
            f"byte 15,696: {CUT} 3,367,254,359,296 bytes, "
            "as its header announces 4,294,967,295 entries of 784.",
        ),
        (
            LABELS,
            idx_labels(some_labels(21)),
            f"byte 4: found a count of 21 labels, expected 20, one for each image in {IMAGES}.",
        ),
        (LABELS, ODD_LABEL, "byte 15: found the label 26, expected a digit from 0 to 9."),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_broken_file(
    tmp_path: Path, name: str, content: bytes, sentence: str, packed: bool
) -> None:
    (write_idx(tmp_path) / name).write_bytes(gzip.compress(content) if packed else content)
    assert refused(mnist, tmp_path) == f"{name}: {sentence}"


@pytest.mark.parametrize("how", ["cut", "changed", "checksum"])
def test_damaged_gzip(tmp_path: Path, how: str) -> None:
    file = write_idx(tmp_path, packed=True) / f"{IMAGES}.gz"
    content = bytearray(file.read_bytes())
    if how == "cut":
        del content[6000:]
    else:
        content[300 if how == "changed" else -6] ^= 0xFF
    file.write_bytes(content)
    sentence = refused(mnist, tmp_path)
    assert re.match(rf"{IMAGES}.gz: byte [\d,]+: found damaged or truncated gzip data", sentence)
    assert sentence.endswith("expected a whole gzip file.")


def test_a_small_file_that_unpacks_to_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.datasets.files.LARGEST_UNPACKED", 2**21)
    file = write_idx(tmp_path, packed=True) / f"{IMAGES}.gz"
    file.write_bytes(gzip.compress(bytes(2**23)))
    assert "found more than 2,097,152 bytes of content" in refused(mnist, tmp_path)


def test_another_set_in_the_clothes_of_mnist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fashion-MNIST has the same format and the same counts; it is brighter."""
    monkeypatch.setattr(module, "_WHOLE", 20)
    assert refused(mnist, write_idx(tmp_path)) == (
        f"{IMAGES}: found 20 images with a mean brightness of 0.5020, expected MNIST's 0.1307 "
        "(Fashion-MNIST and others come in the same format)."
    )
