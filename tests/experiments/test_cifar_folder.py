"""CIFAR-10 from a folder: read back equal, and nothing that a pickle names is ever run."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("rich")
from image_files import (
    as_python_2_writes,
    cifar_batch,
    refused,
    some_images,
    some_labels,
    write_cifar,
)

from experiments.datasets import DataSetError, cifar10
from experiments.datasets.safe_pickle import array_of, loads


@pytest.mark.parametrize("below", ["", "cifar-10-batches-py"])
@pytest.mark.parametrize("protocol", range(6))
def test_all_six_files_are_read(tmp_path: Path, below: str, protocol: int) -> None:
    write_cifar(tmp_path / below, protocol=protocol)
    images = cifar10(tmp_path)
    assert (images.name, images.shape) == ("cifar10", (3, 32, 32))
    assert (len(images.train), len(images.test)) == (50, 10)
    for number in range(5):
        part = slice(10 * number, 10 * number + 10)
        expected = some_images(10, number, (3072,)).reshape(10, 3, 32, 32)
        assert np.array_equal(images.train.pixels[part], expected)
        assert np.array_equal(images.train.labels[part], some_labels(10))
    assert np.array_equal(images.test.pixels.reshape(10, -1), some_images(10, 5, (3072,)))
    assert images.classes[:2] == ("airplane", "automobile")
    assert images.split == "CIFAR-10's own split is kept: 50 images to train on, 10 to test on"


def test_as_python_2_wrote_them(tmp_path: Path) -> None:
    """Like the published files: the keys are bytes, NumPy's module has its old name."""
    batch = cifar_batch(10)
    content = as_python_2_writes(batch)
    real = pickle.loads(content, encoding="bytes")
    assert np.array_equal(real[b"data"], batch["data"])  # what is written is a true pickle
    write_cifar(tmp_path)
    (tmp_path / "test_batch").write_bytes(content)
    images = cifar10(tmp_path)
    assert np.array_equal(images.test.pixels.reshape(10, -1), batch["data"])
    assert images.test.labels.tolist() == batch["labels"]


def test_an_array_stored_by_columns_is_read_as_it_is(tmp_path: Path) -> None:
    write_cifar(tmp_path)
    batch = cifar_batch(10)
    by_column = {**batch, "data": np.asfortranarray(batch["data"])}
    for protocol in (2, 5):
        (tmp_path / "test_batch").write_bytes(pickle.dumps(by_column, protocol))
        images = cifar10(tmp_path)
        assert np.array_equal(images.test.pixels.reshape(10, -1), batch["data"])


class Runs:
    """A pickle that runs a command when it is read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.file}",)


def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    write_cifar(tmp_path)
    (tmp_path / "data_batch_3").write_bytes(pickle.dumps({"data": Runs(witness)}))
    sentence = refused(cifar10, tmp_path)
    assert not witness.exists()
    assert re.fullmatch(
        r"data_batch_3: found a pickle that asks for '(posix|nt).system'; .*",
        sentence,
    )


@pytest.mark.parametrize(
    "name",
    [
        "builtins.eval",
        "numpy.load",
        "numpy.core.multiarray.scalar",
        "codecs.encode",
        "numpy.ndarray.tofile",
        "experiments.datasets.safe_pickle.pickle",
    ],
)
def test_every_other_name_is_refused(tmp_path: Path, name: str) -> None:
    module, _, last = name.rpartition(".")
    with pytest.raises(DataSetError, match=re.escape(f"asks for '{name}'")):
        loads(f"c{module}\n{last}\n.".encode(), tmp_path)


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_no_cut_or_changed_pickle_gives_another_error(data: st.DataObject) -> None:
    whole = bytearray(as_python_2_writes({"data": np.zeros((1, 6), np.uint8), "labels": [3]}))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        held = loads(bytes(whole), Path("f"))
    except DataSetError as error:
        assert str(error).isprintable()
        assert re.match(r"f: found .+, expected .+\.$", str(error))
    else:
        if isinstance(held, dict):
            found = array_of(held.get(b"data"))
            assert found is None or found.dtype == np.uint8


def test_nothing_there(tmp_path: Path) -> None:
    assert (
        refused(cifar10, tmp_path / "absent") == ": found nothing, expected a folder with CIFAR-10."
    )
    (write_cifar(tmp_path) / "data_batch_4").unlink()
    assert refused(cifar10, tmp_path) == (
        ": found no data_batch_4, expected the unpacked Python version of CIFAR-10: "
        "data_batch_1 to 5 and test_batch."
    )


ARRAY = "expected an array of unsigned bytes with 3,072 values an image."
ELSE = "found something else or an array cut short, expected an array"
NUMBER = "expected a whole number from 0 to 9."


def cut(**changes: Any) -> bytes:
    """Three images, with other entries."""
    return pickle.dumps(cifar_batch(3, **changes))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "found not a whole pickle"),
        (b"no pickle", "found not a whole pickle"),
        (pickle.dumps(cifar_batch(10))[:20_000], "found not a whole pickle"),
        (pickle.dumps([1, 2]), "found a pickled list, expected a pickled dictionary."),
        (pickle.dumps({}), "found no entry, expected entries 'data' and 'labels'."),
        (
            pickle.dumps({b"fine_labels": [], "data": some_images(1, 0, (3072,))}),
            "found entries 'data', 'fine_labels', expected entries 'data' and 'labels'.",
        ),
        (cut(data=some_images(3, 0, (784,))), f"entry 'data': found the shape 3×784, {ARRAY}"),
        (cut(data=np.zeros((3, 3072))), f"entry 'data': {ELSE}"),
        (cut(data=[1, 2]), f"entry 'data': {ELSE}"),
        (cut(labels=[0, 1]), "entry 'labels': found 2 labels for 3 images, expected one label"),
        (cut(labels=[0, 10, 1]), f"entry 'labels', item 1: found 10, {NUMBER}"),
        (cut(labels=[0, 1, "cat"]), f"entry 'labels', item 2: found 'cat', {NUMBER}"),
        (
            cut(labels=[0, 10**5000, 2]),
            "entry 'labels', item 1: found an object of type int, expected a whole number",
        ),
        (cut(labels="012"), "entry 'labels': found str, expected a list of numbers from 0 to 9."),
    ],
)
def test_broken_batches(tmp_path: Path, content: bytes, sentence: str) -> None:
    (write_cifar(tmp_path) / "test_batch").write_bytes(content)
    assert refused(cifar10, tmp_path).removeprefix("test_batch: ").startswith(sentence)
