"""A network from scratch, equal on every array library and right by PyTorch's own operations.

It learns digits from scikit-learn or MNIST from a folder, whose every broken file gets a sentence.
"""

import gzip
import json
import platform
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from experiments import backend_speedup, datasets
from experiments.backends import perceptron
from experiments.backends.changes import (
    CHANGES,
    DIVIDED_RATE_CALLS,
    NONE,
    fused_forward,
    operations_with,
)
from experiments.backends.libraries import ON_GPU, Library, load
from experiments.backends.perceptron import (
    Operations,
    Parameters,
    Training,
    accuracy,
    iteration,
    loss,
    placed,
)
from experiments.datasets import Split, handwritten, mnist
from experiments.harness.study import QUICK, SEED, UnavailableError
from report.core.errors import MeasurementError
from report.studies.backend_speedup import subject, theory
from report.studies.backend_speedup.source import OPERATIONS, PERFORMANCE
from report.studies.backend_speedup.subject import Size
from report.theory.work import parameter_count
from tests import factory
from tests.experiments.conftest import measured


@lru_cache
def library(name: str) -> Library:
    if name == "strict":  # which has what the array API standard names, and nothing else
        strict = pytest.importorskip("array_api_strict")
        return Library(name, strict, strict.__version__, strict.Device("CPU_DEVICE"))
    return load(name, torch.get_num_threads())


def case_of(name: str, dtype: str = "float32") -> Training:
    """A training on more images than the data set has, so that some are used twice."""
    few = Split(*(array[:150] for array in handwritten(None).train))
    factors = {"hidden": 10, "samples": 200, "dtype": dtype}
    return perceptron.training_of(library(name), factors, few)


#: How far single precision may drift apart in 20 iterations: libraries sum in different orders.
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("name", ["torch", "strict"])
def test_iterations_give_the_weights_of_numpy(name: str, dtype: str, tolerance: float) -> None:
    ends = []
    for case in (case_of("numpy", dtype), case_of(name, dtype)):
        part, parameters = case.train, case.parameters
        for _ in range(20):
            parameters = case.iterate(parameters)
        assert {str(p.dtype).rpartition(".")[2] for p in parameters} == {dtype}
        xp, sums = case.library.xp, perceptron.forward(case.ops, parameters, part.images).z2
        known = [measure(xp, sums, part.targets) for measure in (loss, accuracy)]
        ends.append([*(np.asarray(p) for p in parameters), *known])
    for result, wanted in zip(*ends, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=0, atol=tolerance)


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 20), st.integers(0, 2**16), st.integers(1, 30))
def test_gradients_are_those_of_autograd(hidden: int, seed: int, samples: int) -> None:
    random, xp = np.random.RandomState(seed), library("numpy").xp
    drawn, ops = perceptron.initial(hidden, seed), Operations(xp)
    part = placed(library("numpy"), "float64", handwritten(None).train, samples)
    b1, b2 = (random.normal(size=bias.shape) for bias in (drawn.b1, drawn.b2))
    parameters = drawn._replace(b1=b1, b2=b2)
    activations = perceptron.forward(ops, parameters, part.images)
    gradients = perceptron.backward(ops, parameters, activations, *part)

    tensors = [torch.tensor(value, requires_grad=True) for value in parameters]
    hidden_sums = functional.linear(torch.tensor(part.images).T, tensors[0], tensors[1][:, 0])
    scores = functional.linear(functional.relu(hidden_sums), tensors[2], tensors[3][:, 0])
    wanted = functional.cross_entropy(scores, torch.tensor(part.targets).T)
    wanted.backward()
    assert loss(xp, activations.z2, part.targets) == pytest.approx(float(wanted.detach()))
    for gradient, tensor in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-9, atol=1e-12)


class Counted(np.ndarray[Any, Any]):
    """An array of NumPy that counts the calls made with it."""

    calls = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **named: Any) -> Any:
        return _counted(getattr(ufunc, method), given, named)

    def __array_function__(self, function: Any, types: Any, given: Any, named: Any) -> Any:
        return _counted(function, given, named)


def _counted(function: Any, given: Any, named: Any) -> Any:
    Counted.calls += 1
    plain = [np.asarray(value) if isinstance(value, Counted) else value for value in given]
    return np.asarray(function(*plain, **named)).view(Counted)


def test_the_calls_of_an_iteration_are_those_of_theory() -> None:
    """Calls on NumPy's own namespace: the standard's clips by several of them."""
    part = case_of("numpy").train
    parameters = Parameters(*(tensor.view(Counted) for tensor in perceptron.initial(10, SEED)))
    for calls in (subject.ALL_CALLS, DIVIDED_RATE_CALLS):
        Counted.calls = 0
        ops = operations_with(calls, np, part.images.shape[1])
        iteration(ops, parameters, part.images.view(Counted), part.targets)
        assert Counted.calls == calls
    counted = sum(map(parameter_count, perceptron.layers(10, 5, "float32")))
    assert counted == sum(p.size for p in parameters) == 7960  # as in the source


@pytest.mark.parametrize(
    ("name", "calls"), [("numpy", 27), ("torch", 27), ("torch", 17), ("torch", 62)]
)
def test_other_numbers_of_calls_give_the_same_iteration(name: str, calls: int) -> None:
    case = case_of(name)
    ops = operations_with(calls, case.library.xp, case.train.images.shape[1])
    result = iteration(ops, case.parameters, *case.train)
    for value, wanted in zip(result, case.iterate(case.parameters), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=0, atol=1e-6)
    series = backend_speedup.paired_times(case, calls, QUICK)
    assert len(series["time"]) == len(series["baseline_time"]) >= QUICK.minimum_samples


def test_timed_and_fused_operations_give_the_same_iteration_and_are_all_of_the_source() -> None:
    case, names = case_of("numpy"), list[str]()
    plain, (xp, wait) = Operations(case.library.xp), (case.library.xp, case.library.wait)
    ticks = iter(range(10_000))
    watched = perceptron.timed(xp, wait, lambda: next(ticks), lambda name, _: names.append(name))
    ends = [iteration(ops, case.parameters, *case.train) for ops in (plain, watched)]
    ends.append(case._replace(forward=fused_forward).iterate(case.parameters))
    for wanted, *values in zip(*ends, strict=True):
        for value in values:
            np.testing.assert_array_equal(value, wanted)
    assert (names.count("matrix_product_time"), names.count("update_time")) == (5, 4)
    times = backend_speedup.whole_times(case, QUICK) | backend_speedup.parts_times(case, QUICK)
    assert times.keys() >= {*PERFORMANCE, *OPERATIONS}


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators map otherwise")
def test_each_change_is_applied_to_its_case_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Returned memory maps the pages that the paper's theory counts, to the unit."""
    assert (NONE, *subject.CHANGES) == CHANGES
    sizes = (subject.ONE_IMAGE, subject.SOURCE, subject.WIDE)
    assert tuple(map(tuple, sizes)) == backend_speedup.CHANGED_SIZES
    monkeypatch.setattr(backend_speedup, "CHANGED_SIZES", ((10, 1), (512, 1_438)))
    stored = measured("backend_speedup", tmp_path, "--set", "subject=change", "--threads", "2")
    for case in stored.record.cases:
        size = Size(int(case.factors["hidden"]), int(case.factors["samples"]))
        returned = case.factors["change"] == subject.RETURNED
        (round_, *_) = case.rounds
        # Some call maps a page of the interpreter's own.
        mapped = min(round_.series["page_faults"][-3:])
        assert mapped == theory.mapped_pages(size) * returned
        assert ("relu_time" in round_.series) == (case.factors["change"] == NONE)


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("name", ON_GPU)
def test_a_library_of_a_gpu_that_is_not_there_is_unavailable(name: str) -> None:
    with pytest.raises(UnavailableError, match=r"install|--device cuda"):
        load(name, 1)


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def idx(name: str, count: int, seed: int = 1, side: int = 28) -> bytes:
    """A file of random images, or of labels in turn, with its header."""
    pixels = np.random.RandomState(seed).randint(0, 256, (count, side, side)).astype(np.uint8)
    if name == IMAGES:
        return struct.pack(">4I", 2051, count, side, side) + pixels.tobytes()
    return struct.pack(">2I", 2049, count) + bytes(number % 10 for number in range(count))


#: 20 images to train on, and 10 others to test on.
FILES = {
    IMAGES: idx(IMAGES, 20),
    LABELS: idx(LABELS, 20),
    "t10k-images-idx3-ubyte": idx(IMAGES, 10, 2),
    "t10k-labels-idx1-ubyte": idx(LABELS, 10),
}
WHOLE = FILES[IMAGES]


def written(folder: Path, packed: bool = False, **changed: bytes) -> Path:
    """A folder with the files, of which some are ``changed``."""
    files = {**FILES, **changed}
    if packed:
        files = {f"{name}.gz": gzip.compress(content) for name, content in files.items()}
    return factory.write_files(folder, files)


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
    identity = json.loads(handwritten(None).identity)
    assert identity["digest"] == "6d88521e7f44b639579811aaba317eddfdcb408406281639778baebfc71d714e"
    assert (identity["train"], identity["test"]) == ({"images": 1438}, {"images": 359})


@pytest.mark.parametrize("packed", [False, True])
def test_images_keep_labels(tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "_MNIST_HELD_OUT", 4)
    split = mnist(written(tmp_path, packed))
    order = np.random.RandomState(0).permutation(30)
    assert np.array_equal([*split.test.labels, *split.train.labels], (order % 20) % 10)
    pixels = np.frombuffer(WHOLE[16:] + FILES["t10k-images-idx3-ubyte"][16:], np.uint8)
    images = pixels.reshape(30, 28, 28)[order]
    assert np.array_equal(np.concatenate([split.test.pixels, split.train.pixels]), images)
    assert len(split.test.pixels) == 4
    assert all(name in split.source for name in FILES) and str(tmp_path) not in split.source


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("name", "content", "place", "words"), [
    (IMAGES, b"", "byte 0", "the number 0,"),
    (IMAGES, WHOLE[:10], "byte 4", "a header of 16 bytes"),
    (IMAGES, WHOLE[:5000], "found 5,000 bytes", "expected 15,696 bytes"),
    (IMAGES, WHOLE + bytes(2), "found 15,698 bytes", "20 entries"),
    (IMAGES, b"\x89PNG\r\n\x1a\n" + bytes(50), "byte 0", "the number 2,303,741,511"),
    (IMAGES, idx(LABELS, 20), "byte 0", "the number 2,049"),
    (IMAGES, idx(IMAGES, 5, side=32), "byte 8", "32×32"),
    (IMAGES, idx(IMAGES, 0), "byte 4", "no entry"),
    (IMAGES, WHOLE[:4] + b"\xff\xff\xff\xff" + WHOLE[8:], "found 15,696", "4,294,967,295 entr"),
    (LABELS, idx(LABELS, 21), "byte 4", "a count of 21 labels, expected 20"),
    (LABELS, FILES[LABELS][:15] + b"\x1a" + bytes(12), "byte 15", "the label 26"),
])  # fmt: skip
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
    with pytest.raises(MeasurementError, match=f"found no {LABELS},"):  # before the run begins
        measured("backend_speedup", tmp_path / "records", "--data", str(tmp_path))
    assert not (tmp_path / "records").exists()
    # Fashion-MNIST has the same format and the same counts; it is brighter.
    monkeypatch.setattr(datasets, "_TRAINING_IMAGES", 20)
    assert "a mean brightness of 0.5020, expected MNIST's 0.1307" in refused(written(tmp_path))
