"""The network written from scratch, on all array libraries, compared with PyTorch's operations.

Images are scikit-learn's digits, or MNIST from a folder; damaged files are reported.
"""

import gzip
import json
import platform
import struct
from collections import Counter
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
from experiments.backends import changes, perceptron
from experiments.backends.libraries import ON_GPU, Library, load
from experiments.backends.perceptron import Operations, Parameters, Training, iteration
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
    if name == "strict":  # contains only the functions of the array API standard
        strict = pytest.importorskip("array_api_strict")
        return Library(name, strict, strict.__version__, strict.Device("CPU_DEVICE"))
    return load(name, torch.get_num_threads())


def training_on(name: str, dtype: str = "float32") -> Training:
    """Return a training on 200 samples of 150 images, so that some images are used twice."""
    split = Split(*(array[:150] for array in handwritten(None).train))
    factors = {"hidden": 10, "samples": 200, "dtype": dtype}
    return perceptron.training_of(library(name), factors, split)


# Results differ after 20 iterations, because libraries add numbers in different orders.
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("name", ["torch", "strict"])
def test_iterations_match_numpy(name: str, dtype: str, tolerance: float) -> None:
    def results(training: Training) -> list[Any]:
        """Return parameters, loss and accuracy after 20 iterations."""
        parameters = training.parameters
        for _ in range(20):
            parameters = training.iterate(parameters)
        for parameter in parameters:
            _, _, type_name = str(parameter.dtype).rpartition(".")
            assert type_name == dtype
        scores = perceptron.forward(training.ops, parameters, training.train.images).z2
        xp, targets = training.library.xp, training.train.targets
        values = [np.asarray(parameter) for parameter in parameters]
        loss = perceptron.loss(xp, scores, targets)
        accuracy = perceptron.accuracy(xp, scores, targets)
        return [*values, loss, accuracy]

    on_numpy, on_library = (results(training_on(library, dtype)) for library in ("numpy", name))
    for result, expected in zip(on_library, on_numpy, strict=True):
        np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance)


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 20), st.integers(0, 2**16), st.integers(1, 30))
def test_gradients_equal_autograd(hidden: int, seed: int, samples: int) -> None:
    random, xp = np.random.RandomState(seed), library("numpy").xp
    initial, ops = perceptron.initial_parameters(hidden, seed), Operations(xp)
    part = perceptron.batch_on_device(library("numpy"), "float64", handwritten(None).train, samples)
    b1, b2 = (random.normal(size=bias.shape) for bias in (initial.b1, initial.b2))
    parameters = initial._replace(b1=b1, b2=b2)
    activations = perceptron.forward(ops, parameters, part.images)
    gradients = perceptron.backward(ops, parameters, activations, *part)

    tensors = [torch.tensor(value, requires_grad=True) for value in parameters]
    hidden_sums = functional.linear(torch.tensor(part.images).T, tensors[0], tensors[1][:, 0])
    scores = functional.linear(functional.relu(hidden_sums), tensors[2], tensors[3][:, 0])
    expected = functional.cross_entropy(scores, torch.tensor(part.targets).T)
    expected.backward()
    loss = perceptron.loss(xp, activations.z2, part.targets)
    assert loss == pytest.approx(float(expected.detach()))
    for gradient, tensor in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-9, atol=1e-12)


class Counting(np.ndarray[Any, Any]):
    """NumPy array that counts the NumPy calls that receive the array."""

    calls = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return _call_and_count(getattr(ufunc, method), args, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _call_and_count(function, args, kwargs)


def _call_and_count(function: Any, args: Any, kwargs: Any) -> Any:
    Counting.calls += 1
    arrays = [np.asarray(value) if isinstance(value, Counting) else value for value in args]
    return np.asarray(function(*arrays, **kwargs)).view(Counting)


def test_an_iteration_makes_the_calls_that_theory_counts() -> None:
    """Calls are counted without the array API, whose ``clip`` makes several NumPy calls."""
    part = training_on("numpy").train
    parameters = Parameters(
        *(tensor.view(Counting) for tensor in perceptron.initial_parameters(10, SEED))
    )
    for calls in (subject.ALL_CALLS, changes.DIVIDED_RATE_CALLS):
        Counting.calls = 0
        ops = changes.operations_with(calls, np, part.images.shape[1])
        iteration(ops, parameters, part.images.view(Counting), part.targets)
        assert Counting.calls == calls
    counts = Counter[str]()

    def add(quantity: str, calls: float) -> None:
        counts[quantity] += int(calls)

    timed = perceptron.timed_operations(np, lambda result: result, lambda: Counting.calls, add)
    iteration(timed, parameters, part.images.view(Counting), part.targets)
    assert counts == {
        "matrix_product_time": 5, "bias_time": 2, "relu_time": 1, "softmax_time": 5,
        "gradient_time": 10, "update_time": 8,
    }  # fmt: skip
    described = sum(map(parameter_count, perceptron.layers(10, 5, "float32")))
    assert described == sum(p.size for p in parameters) == 7960  # as in the source


@pytest.mark.parametrize(
    ("name", "calls"), [("numpy", 27), ("torch", 27), ("torch", 17), ("torch", 62)]
)
def test_other_numbers_of_calls_compute_the_same_iteration(name: str, calls: int) -> None:
    training = training_on(name)
    ops = changes.operations_with(calls, training.library.xp, training.train.images.shape[1])
    result = iteration(ops, training.parameters, *training.train)
    for value, expected in zip(result, training.iterate(training.parameters), strict=True):
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-6)
    series = backend_speedup.time_with_calls(training, calls, QUICK)
    assert len(series["time"]) == len(series["baseline_time"]) >= QUICK.minimum_samples


def test_timed_and_fused_operations_compute_the_same_iteration() -> None:
    training, names, ticks = training_on("numpy"), list[str](), iter(range(10_000))
    library = training.library
    plain = Operations(library.xp)
    timed = perceptron.timed_operations(
        library.xp, library.wait, lambda: next(ticks), lambda name, seconds: names.append(name)
    )
    expected = iteration(plain, training.parameters, *training.train)
    of_timed = iteration(timed, training.parameters, *training.train)
    of_fused = training._replace(forward=changes.fused_forward).iterate(training.parameters)
    for results in (of_timed, of_fused):
        for value, expected_value in zip(results, expected, strict=True):
            np.testing.assert_array_equal(value, expected_value)
    assert (names.count("matrix_product_time"), names.count("update_time")) == (5, 4)
    whole, parts = backend_speedup.time_iteration, backend_speedup.time_parts
    times = whole(training, QUICK) | parts(training, QUICK)
    assert times.keys() >= {*PERFORMANCE, *OPERATIONS, "call_time"}


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators map otherwise")
def test_a_change_affects_only_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the C library returns freed memory, a call maps the pages that the theory counts."""
    assert (changes.NONE, *subject.CHANGES) == changes.CHANGES
    sizes = (subject.ONE_IMAGE, subject.SOURCE, subject.WIDE)
    assert tuple(map(tuple, sizes)) == backend_speedup.CHANGED_SIZES
    monkeypatch.setattr(backend_speedup, "CHANGED_SIZES", ((10, 1), (512, 1_438)))
    stored = measured("backend_speedup", tmp_path, "--set", "subject=change", "--threads", "2")
    for case in stored.record.cases:
        size = Size(int(case.factors["hidden"]), int(case.factors["samples"]))
        change, series = case.factors["change"], case.rounds[0].series
        # A call may also map a page for the interpreter.
        mapped = min(series["page_faults"][-3:])
        assert mapped == (theory.mapped_pages(size) if change == subject.RETURNED else 0)
        assert ("relu_time" in series) == (change == changes.NONE)


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("name", ON_GPU)
def test_a_gpu_library_is_unavailable_without_a_gpu(name: str) -> None:
    with pytest.raises(UnavailableError, match=r"install|--device cuda"):
        load(name, 1)


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def idx(name: str, count: int, seed: int = 1, side: int = 28) -> bytes:
    """Return an IDX file of random images, or of the labels 0 to 9 in turn."""
    pixels = np.random.RandomState(seed).randint(0, 256, (count, side, side)).astype(np.uint8)
    if name == IMAGES:
        return struct.pack(">4I", 2051, count, side, side) + pixels.tobytes()
    return struct.pack(">2I", 2049, count) + bytes(number % 10 for number in range(count))


#: MNIST files with 20 training and 10 test images.
FILES = {
    IMAGES: idx(IMAGES, 20),
    LABELS: idx(LABELS, 20),
    "t10k-images-idx3-ubyte": idx(IMAGES, 10, 2),
    "t10k-labels-idx1-ubyte": idx(LABELS, 10),
}
VALID = FILES[IMAGES]


def write_mnist(folder: Path, packed: bool = False, **changed: bytes) -> Path:
    """Write the files into the folder; ``changed`` replaces the content of some files."""
    files = {**FILES, **changed}
    if packed:
        files = {f"{name}.gz": gzip.compress(content) for name, content in files.items()}
    return factory.write_files(folder, files)


def mnist_error(folder: Path) -> str:
    """Read the folder; return the error message without the folder's path."""
    with pytest.raises(MeasurementError) as caught:
        mnist(folder)
    sentence = str(caught.value)
    assert sentence.isprintable() and sentence.startswith(str(folder))
    return sentence.removeprefix(str(folder)).lstrip("/")


def test_the_digits_are_the_same_bytes_everywhere() -> None:
    """The digits depend neither on the rounding of a machine nor on the version of NumPy."""
    pytest.importorskip("sklearn")
    identity = json.loads(handwritten(None).identity)
    assert identity["digest"] == "6d88521e7f44b639579811aaba317eddfdcb408406281639778baebfc71d714e"
    assert (identity["train"], identity["test"]) == ({"images": 1438}, {"images": 359})


@pytest.mark.parametrize("packed", [False, True])
def test_images_keep_labels(tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "_MNIST_HELD_OUT", 4)
    split = mnist(write_mnist(tmp_path, packed))
    order = np.random.RandomState(0).permutation(30)
    assert np.array_equal([*split.test.labels, *split.train.labels], (order % 20) % 10)
    pixels = np.frombuffer(VALID[16:] + FILES["t10k-images-idx3-ubyte"][16:], np.uint8)
    images = pixels.reshape(30, 28, 28)[order]
    assert np.array_equal(np.concatenate([split.test.pixels, split.train.pixels]), images)
    assert len(split.test.pixels) == 4
    assert all(name in split.source for name in FILES) and str(tmp_path) not in split.source


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("name", "content", "place", "words"), [
    (IMAGES, b"", "byte 0", "the number 0,"),
    (IMAGES, VALID[:10], "byte 4", "a header of 16 bytes"),
    (IMAGES, VALID[:5000], "found 5,000 bytes", "expected 15,696 bytes"),
    (IMAGES, VALID + bytes(2), "found 15,698 bytes", "20 entries"),
    (IMAGES, b"\x89PNG\r\n\x1a\n" + bytes(50), "byte 0", "the number 2,303,741,511"),
    (IMAGES, idx(LABELS, 20), "byte 0", "the number 2,049"),
    (IMAGES, idx(IMAGES, 5, side=32), "byte 8", "32×32"),
    (IMAGES, idx(IMAGES, 0), "byte 4", "no entry"),
    (IMAGES, VALID[:4] + b"\xff\xff\xff\xff" + VALID[8:], "found 15,696", "4,294,967,295 entr"),
    (LABELS, idx(LABELS, 21), "byte 4", "a count of 21 labels, expected 20"),
    (LABELS, FILES[LABELS][:15] + b"\x1a" + bytes(12), "byte 15", "the label 26"),
])  # fmt: skip
def test_a_damaged_mnist_file_is_reported_with_its_place(
    tmp_path: Path, packed: bool, name: str, content: bytes, place: str, words: str
) -> None:
    sentence = mnist_error(write_mnist(tmp_path, packed, **{name: content}))
    assert sentence.startswith(f"{name}{'.gz' if packed else ''}: {place}")
    assert words in sentence


def test_folders_without_mnist_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "found no folder" in mnist_error(tmp_path / "absent")
    assert f"found no {IMAGES} and no {LABELS}" in mnist_error(tmp_path)
    (write_mnist(tmp_path) / LABELS).unlink()
    assert f"found no {LABELS}," in mnist_error(tmp_path)
    with pytest.raises(MeasurementError, match=f"found no {LABELS},"):  # before the run begins
        measured("backend_speedup", tmp_path / "records", "--data", str(tmp_path))
    assert not (tmp_path / "records").exists()
    # Fashion-MNIST has the same format and number of images, but brighter images.
    monkeypatch.setattr(datasets, "_TRAINING_IMAGES", 20)
    folder = write_mnist(tmp_path)
    assert "a mean brightness of 0.5020, expected MNIST's 0.1307" in mnist_error(folder)
