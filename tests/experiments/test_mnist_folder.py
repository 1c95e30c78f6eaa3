"""MNIST from a folder: every usual form is read back equal, every broken one gets one sentence."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

pytest.importorskip("rich")
from image_files import (
    IDX,
    idx_images,
    idx_labels,
    refused,
    some_images,
    some_labels,
    table,
    unheard,
    write_idx,
)
from rich.console import Console

from experiments.datasets import DataSetError, handwritten, mnist
from experiments.datasets import mnist_folder as module
from experiments.datasets.files import patiently
from experiments.datasets.idx import images_of, labels_of
from experiments.datasets.labelled_csv import read_table

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


@pytest.mark.parametrize(
    "spelling",
    ["{0}.{1}-ubyte", "{0}-{1}.ubyte", "{0}", "{0}.{1}-ubyte.gz", "{0}-{1}-ubyte/{0}-{1}-ubyte"],
)
def test_other_spellings_of_the_names(tmp_path: Path, spelling: str) -> None:
    whole = write_idx(tmp_path / "usual")
    for name in IDX.values():
        stem, code = re.fullmatch(r"(.+)-(idx\d)-ubyte", name).groups()  # type: ignore[union-attr]
        target = tmp_path / "other" / spelling.format(stem, code)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((whole / name).read_bytes())  # a plain file may be called .gz
    assert mnist(tmp_path / "other").digest == mnist(whole).digest


def test_two_tables_keep_their_split(tmp_path: Path) -> None:
    (tmp_path / "mnist_train.csv").write_bytes(table(some_images(20, 1), some_labels(20)))
    (tmp_path / "mnist_test.csv.gz").write_bytes(
        gzip.compress(table(some_images(10, 2), some_labels(10), header=True))
    )
    images = mnist(tmp_path)
    assert images.digest == mnist(write_idx(tmp_path / "idx")).digest
    assert images.source == "MNIST from the tables mnist_train.csv and mnist_test.csv.gz"
    assert images.split == "MNIST's own split is kept: 20 images to train on, 10 to test on"


@pytest.mark.parametrize("unlabelled", ["with a header", "without", "absent"])
def test_without_labelled_test_images_a_fifth_is_held_out(tmp_path: Path, unlabelled: str) -> None:
    """Kaggle's test.csv has no labels."""
    (tmp_path / "train.csv").write_bytes(table(some_images(20), some_labels(20), header=True))
    pixels = b",".join([b"7"] * 784)
    if unlabelled != "absent":
        head = ",".join(f"pixel{n}" for n in range(784)).encode() + b"\n"
        (tmp_path / "test.csv").write_bytes((head if "with a" in unlabelled else b"") + pixels)
    images = mnist(tmp_path)
    assert (len(images.train), len(images.test)) == (16, 4)
    assert images.split == "4 of 20 images, drawn at random (seed 0), are held out for testing"
    assert images.source == "MNIST from the table train.csv"


def test_its_own_files_come_before_tables(tmp_path: Path) -> None:
    write_idx(tmp_path)
    (tmp_path / "train.csv").write_bytes(table(some_images(5), some_labels(5)))
    assert len(mnist(tmp_path).train) == 20


SHAPES = st.integers(1, 4).map(lambda count: (count, 28, 28))


@settings(deadline=None, max_examples=40)
@given(data=st.data(), packed=st.booleans(), header=st.booleans(), end=st.sampled_from("\n\r"))
def test_written_and_read_back(data: st.DataObject, packed: bool, header: bool, end: str) -> None:
    images = data.draw(arrays.arrays(np.uint8, SHAPES))
    labels = data.draw(arrays.arrays(np.uint8, len(images), elements=st.integers(0, 9)))
    somewhere = Path("somewhere")
    assert np.array_equal(images_of(idx_images(images), somewhere), images)
    assert np.array_equal(labels_of(idx_labels(labels), somewhere), labels)
    text = table(images, labels, header).replace(b"\n", b"\n" if end == "\n" else b"\r\n")
    file = _Memory(gzip.compress(text) if packed else text)
    read = read_table(file, unheard)  # type: ignore[arg-type]
    assert np.array_equal(read[0], images)
    assert np.array_equal(read[1], labels)


class _Memory:
    """Enough of a path for a file that is never on a disk."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.st_size = len(content)

    def open(self, _: str) -> io.BytesIO:
        return io.BytesIO(self.content)

    def stat(self) -> _Memory:
        return self


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_no_cut_or_changed_idx_file_gives_another_error(data: st.DataObject) -> None:
    """Whatever happens to the bytes, it is read or it is refused in one sentence."""
    whole = bytearray(idx_images(some_images(2)))
    del whole[data.draw(st.integers(0, len(whole))) :]
    for place in data.draw(st.lists(st.integers(0, 15), max_size=3)):
        if place < len(whole):
            whole[place] = data.draw(st.integers(0, 255))
    try:
        assert images_of(bytes(whole), Path("f")).shape[1:] == (28, 28)
    except DataSetError as error:
        assert re.fullmatch(r"f: byte [\d,]+: found .+, expected .+\.", str(error))


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_no_changed_table_gives_another_error(data: st.DataObject) -> None:
    whole = bytearray(table(some_images(2), some_labels(2), header=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=5))
    try:
        images, labels = read_table(_Memory(bytes(whole)), unheard)  # type: ignore[arg-type]
        assert images.shape[1:] == (28, 28)
        assert labels.max() <= 9
    except DataSetError as error:
        assert re.search(r": found .+, expected .+\.$", str(error))
        assert str(error).isprintable()


def test_nothing_there(tmp_path: Path) -> None:
    assert refused(mnist, tmp_path / "absent") == ": found nothing, expected a folder with MNIST."
    sentence = refused(mnist, tmp_path)
    assert sentence.startswith(": found no file of MNIST, expected train-images-idx3-ubyte, ")
    assert sentence.endswith("or mnist_train.csv or train.csv, each plain or .gz.")
    (tmp_path / "train.csv").touch()
    sentence = refused(mnist, tmp_path / "train.csv")
    assert sentence == ": found a file, expected a folder with MNIST."
    (write_idx(tmp_path) / LABELS).unlink()
    assert refused(mnist, tmp_path) == f": found no {LABELS}, expected all four files of MNIST."


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
    packed = gzip.compress(table(some_images(20), some_labels(20)))
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "train.csv.gz").write_bytes(packed[: len(packed) // 2])
    assert "found damaged or truncated gzip data" in refused(mnist, tmp_path / "table")


def test_a_small_file_that_unpacks_to_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.datasets.files._LARGEST", 2**21)
    file = write_idx(tmp_path, packed=True) / f"{IMAGES}.gz"
    file.write_bytes(gzip.compress(bytes(2**23)))
    assert "found more than 2,097,152 bytes of content" in refused(mnist, tmp_path)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_idx(tmp_path) / IMAGES
    whole = Path.open

    def guarded(self: Path, *words: Any) -> Any:
        if self == file:
            raise PermissionError(13, "Permission denied")
        return whole(self, *words)

    monkeypatch.setattr(Path, "open", guarded)
    assert refused(mnist, tmp_path) == f"{IMAGES}: cannot be read (Permission denied)."


def write_table(folder: Path, change: Any) -> None:
    """A table of 20 rows, without a header, changed as a list of lines."""
    lines = table(some_images(20), some_labels(20)).split(b"\n")[:-1]
    change(lines)
    (folder / "mnist_train.csv").write_bytes(b"\n".join(lines) + b"\n")


def row(label: object = 1, **pixels: object) -> bytes:
    """A line of zeros, with ``p3=7`` for another third pixel."""
    values = [label, *[pixels.get(f"p{n}", 0) for n in range(1, 785)]]
    return ",".join(map(str, values)).encode()


WHOLE_NUMBER = "expected a whole number from 0 to 255."
VALUES = "expected 785 values, the label and 784 pixels."


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (row(p3="x"), f", column 4: found 'x', {WHOLE_NUMBER}"),
        (row(p3=""), f", column 4: found '', {WHOLE_NUMBER}"),
        (row(p3=256), f", column 4: found '256', {WHOLE_NUMBER}"),
        (row(p3=-1), f", column 4: found '-1', {WHOLE_NUMBER}"),
        (row(p3="0.5"), f", column 4: found '0.5', {WHOLE_NUMBER}"),
        (row(p3="nan"), f", column 4: found 'nan', {WHOLE_NUMBER}"),
        (row(p784="9" * 30), f", column 785: found '{'9' * 20}...', {WHOLE_NUMBER}"),
        (row(p1="\x1b[31m"), f", column 2: found '\\x1b[31m', {WHOLE_NUMBER}"),
        (row(label=10), ", column 1: found '10', expected a label from 0 to 9."),
        (row(label="seven"), ", column 1: found 'seven', expected a label from 0 to 9."),
        (row().rsplit(b",", 1)[0], f": found 784 values, {VALUES}"),
        (row() + b",0", f": found 786 values, {VALUES}"),
        (b"1", f": found 1 value, {VALUES}"),
    ],
)
def test_a_broken_row(tmp_path: Path, line: bytes, sentence: str) -> None:
    write_table(tmp_path, lambda lines: lines.__setitem__(4, line))
    assert refused(mnist, tmp_path) == f"mnist_train.csv: line 5{sentence}"


def test_rows_are_counted_from_the_top_of_the_file(tmp_path: Path) -> None:
    """Blank lines and the header count, and so do the blocks read before."""

    def change(lines: list[bytes]) -> None:
        lines[:] = [b"", *([row()] * 4500), row(label=77), row(p3="x")]

    write_table(tmp_path, change)
    assert refused(mnist, tmp_path).startswith("mnist_train.csv: line 4,502, column 1: found '77'")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "line 1: found no row of pixels, expected rows of 785 values"),
        (b"\n\n", "line 1: found no row of pixels, expected rows of 785 values"),
        (
            b"PK\x03\x04\0\0\xff\xfe",
            "line 1: found 1 column, the first of them 'PK\\x03\\x04\\x00\\x00\\xff\\xfe'",
        ),
        (
            b"Id,Price\n1,2\n",
            "line 1: found 2 columns, the first of them 'Id', expected 785 values",
        ),
        (
            b",".join([b"pixel"] * 784 + [b"class"]) + b"\n" + row(),
            "line 1, column 1: found the name 'pixel', expected the name 'label'.",
        ),
        (b"label" + b",p" * 784 + b"\n", "line 1: found no row of pixels"),
        (table(some_images(4), some_labels(4)), "found 4 images, expected 5 or more"),
    ],
)
def test_what_is_no_table_of_mnist(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "train.csv").write_bytes(content)
    assert refused(mnist, tmp_path).startswith(f"train.csv: {sentence}")


@pytest.mark.parametrize("head", ["label,1x1", "\ufefflabel,1x1", '"label","1x1"', "Label, 1x1"])
def test_other_headers(tmp_path: Path, head: str) -> None:
    text = f"{head}{',p' * 783}\r\n".encode() + row(3) * 1 + b"\r\n"
    (tmp_path / "train.csv").write_bytes(text + (row(4) + b"\r\n") * 9)
    images = mnist(tmp_path)
    assert sorted([*images.train.labels, *images.test.labels]) == [3] + [4] * 9


def test_another_set_in_the_clothes_of_mnist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fashion-MNIST has the same format and the same counts; it is brighter."""
    monkeypatch.setattr(module, "_WHOLE", 20)
    assert refused(mnist, write_idx(tmp_path)) == (
        f"{IMAGES}: found 20 images with a mean brightness of 0.5020, expected MNIST's 0.1307 "
        "(Fashion-MNIST and others come in the same format)."
    )


def test_a_bar_only_for_who_waits(tmp_path: Path) -> None:
    write_idx(tmp_path)
    for after_s, terminal in ((60.0, True), (0.0, True), (0.0, False)):
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=100)
        with patiently(console, after_s) as observer:
            mnist(tmp_path, observer)
        if after_s:
            assert not text.getvalue()
        elif terminal:
            assert "100%" in text.getvalue()
        else:
            assert text.getvalue().split("\n") == [
                *(f"Reading {name}." for name in IDX.values()),
                "",
            ]
