"""The network written from scratch on several array libraries, and its images.

Results are compared with those of NumPy and of PyTorch's own operations.  Images are scikit-learn's
digits, or MNIST from a folder.
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
from experiments.datasets import Split, load_handwritten, load_mnist
from experiments.harness.study import QUICK, SEED, UnavailableError
from report.core.errors import MeasurementError
from report.studies.backend_speedup import subject, theory
from report.studies.backend_speedup.source import OPERATIONS, PERFORMANCE
from report.studies.backend_speedup.subject import Size
from report.theory.work import parameter_count
from tests import factory
from tests.experiments.conftest import measure_study


@lru_cache
def library(name: str) -> Library:
    """Load an array library; ``strict`` contains only the functions of the array API standard."""
    if name == "strict":
        strict = pytest.importorskip("array_api_strict")
        return Library(name, strict, strict.__version__, strict.Device("CPU_DEVICE"))
    return load(name, torch.get_num_threads())


def training_on(name: str, dtype: str = "float32") -> Training:
    """Return a training on 200 samples of 150 images, so that some images are used twice."""
    split = Split(*(array[:150] for array in load_handwritten(None).train))
    factors = {"hidden": 10, "samples": 200, "dtype": dtype}
    return perceptron.training_of(library(name), factors, split)


# Libraries add numbers in different orders, so results differ by rounding after 20 iterations.
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("name", ["torch", "strict"])
def test_iterations_match_numpy(name: str, dtype: str, tolerance: float) -> None:
    def train(training: Training) -> list[Any]:
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

    results, expected_results = train(training_on(name, dtype)), train(training_on("numpy", dtype))
    for result, expected in zip(results, expected_results, strict=True):
        np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance)


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 20), st.integers(0, 2**16), st.integers(1, 30))
def test_gradients_equal_autograd(hidden: int, seed: int, samples: int) -> None:
    random, xp = np.random.RandomState(seed), library("numpy").xp
    initial, ops = perceptron.initial_parameters(hidden, seed), Operations(xp)
    batch = perceptron.batch_on_device(
        library("numpy"), "float64", load_handwritten(None).train, samples
    )
    b1, b2 = (random.normal(size=bias.shape) for bias in (initial.b1, initial.b2))
    parameters = initial._replace(b1=b1, b2=b2)
    activations = perceptron.forward(ops, parameters, batch.images)
    gradients = perceptron.backward(ops, parameters, activations, *batch)

    tensors = [torch.tensor(value, requires_grad=True) for value in parameters]
    hidden_sums = functional.linear(torch.tensor(batch.images).T, tensors[0], tensors[1][:, 0])
    scores = functional.linear(functional.relu(hidden_sums), tensors[2], tensors[3][:, 0])
    expected_loss = functional.cross_entropy(scores, torch.tensor(batch.targets).T)
    expected_loss.backward()
    loss = perceptron.loss(xp, activations.z2, batch.targets)
    assert loss == pytest.approx(float(expected_loss.detach()))
    for gradient, tensor in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-9, atol=1e-12)


class Counting(np.ndarray[Any, Any]):
    """NumPy array that counts the calls of NumPy to which it is passed; results count as well."""

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
    batch = training_on("numpy").train
    parameters = Parameters(
        *(tensor.view(Counting) for tensor in perceptron.initial_parameters(10, SEED))
    )
    for calls in (subject.ALL_CALLS, changes.DIVIDED_RATE_CALLS):
        Counting.calls = 0
        ops = changes.operations_with(calls, np, batch.images.shape[1])
        iteration(ops, parameters, batch.images.view(Counting), batch.targets)
        assert Counting.calls == calls
    # With the number of calls in place of a clock, "times" are calls per operation.
    counts = Counter[str]()

    def add(quantity: str, calls: float) -> None:
        counts[quantity] += int(calls)

    timed = perceptron.timed_operations(np, lambda result: result, lambda: Counting.calls, add)
    iteration(timed, parameters, batch.images.view(Counting), batch.targets)
    assert counts == {
        "matrix_product_time": 5, "bias_time": 2, "relu_time": 1, "softmax_time": 5,
        "gradient_time": 10, "update_time": 8,
    }  # fmt: skip
    assert sum(counts.values()) == subject.ALL_CALLS


def test_the_layers_describe_all_parameters() -> None:
    described = sum(map(parameter_count, perceptron.layers(10, 5, "float32")))
    assert (
        described == sum(p.size for p in perceptron.initial_parameters(10, SEED)) == 7960
    )  # in the source


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
    expected_results = iteration(plain, training.parameters, *training.train)
    timed_results = iteration(timed, training.parameters, *training.train)
    fused_results = training._replace(forward=changes.fused_forward).iterate(training.parameters)
    for results in (timed_results, fused_results):
        for value, expected in zip(results, expected_results, strict=True):
            np.testing.assert_array_equal(value, expected)
    # Five matrix products, and an update of each of four parameters.
    assert (names.count("matrix_product_time"), names.count("update_time")) == (5, 4)
    times = backend_speedup.time_iteration(training, QUICK)
    times |= backend_speedup.time_parts(training, QUICK)
    assert times.keys() >= {*PERFORMANCE, *OPERATIONS, "call_time"}


def test_paper_and_experiment_have_the_same_changes_and_sizes() -> None:
    assert (changes.UNCHANGED, *subject.CHANGES) == changes.CHANGES
    sizes = (subject.ONE_IMAGE, subject.SOURCE_SIZE, subject.WIDE_SIZE)
    assert tuple(map(tuple, sizes)) == backend_speedup.CHANGED_SIZES


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators map otherwise")
def test_a_change_affects_only_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the C library returns freed memory, a call maps the pages that the theory counts."""
    monkeypatch.setattr(backend_speedup, "CHANGED_SIZES", ((10, 1), (512, 1_438)))
    stored = measure_study("backend_speedup", tmp_path, "--set", "subject=change", "--threads", "2")
    for case in stored.record.cases:
        size = Size(int(case.factors["hidden"]), int(case.factors["samples"]))
        change, series = case.factors["change"], case.rounds[0].series
        # A call may also map a page for the interpreter.
        mapped = min(series["page_faults"][-3:])
        assert mapped == (theory.mapped_pages(size) if change == subject.MEMORY_RETURNED else 0)
        assert ("relu_time" in series) == (change == changes.UNCHANGED)


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("name", ON_GPU)
def test_a_gpu_library_is_unavailable_without_a_gpu(name: str) -> None:
    with pytest.raises(UnavailableError, match=r"install|--device cuda"):
        load(name, 1)


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def image_file(count: int, seed: int = 1, side: int = 28) -> bytes:
    """Return an IDX file (the format of MNIST) of random square images."""
    pixels = np.random.RandomState(seed).randint(0, 256, (count, side, side)).astype(np.uint8)
    return struct.pack(">4I", 2051, count, side, side) + pixels.tobytes()


def label_file(count: int) -> bytes:
    """Return an IDX file of the labels 0 to 9 in turn."""
    return struct.pack(">2I", 2049, count) + bytes(number % 10 for number in range(count))


#: MNIST files with 20 training and 10 test images.
FILES = {
    IMAGES: image_file(20),
    LABELS: label_file(20),
    "t10k-images-idx3-ubyte": image_file(10, seed=2),
    "t10k-labels-idx1-ubyte": label_file(10),
}
#: A header of 16 B, and 20 images of 784 B.
VALID = FILES[IMAGES]


def write_mnist(folder: Path, packed: bool = False, **replaced: bytes) -> Path:
    """Write ``FILES`` into the folder; ``replaced`` is the content of some of them."""
    files = {**FILES, **replaced}
    if packed:
        files = {f"{name}.gz": gzip.compress(content) for name, content in files.items()}
    return factory.write_files(folder, files)


def mnist_error(folder: Path) -> str:
    """Read a folder that is refused; return the error message without the folder's path."""
    with pytest.raises(MeasurementError) as caught:
        load_mnist(folder)
    sentence = str(caught.value)
    assert sentence.isprintable() and sentence.startswith(str(folder))
    return sentence.removeprefix(str(folder)).lstrip("/")


def test_the_digits_are_the_same_bytes_everywhere() -> None:
    """The bytes depend neither on the rounding of a machine nor on the version of NumPy."""
    pytest.importorskip("sklearn")
    identity = json.loads(load_handwritten(None).identity)
    assert identity["digest"] == "6d88521e7f44b639579811aaba317eddfdcb408406281639778baebfc71d714e"
    assert (identity["train"], identity["test"]) == ({"images": 1438}, {"images": 359})


@pytest.mark.parametrize("packed", [False, True])
def test_shuffled_images_keep_their_labels(
    tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "_MNIST_HELD_OUT", 4)
    split = load_mnist(write_mnist(tmp_path, packed))
    order = np.random.RandomState(0).permutation(30)
    # Image n of the training file has the label n % 10, and so has image 20 + n, of the test file.
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
    (IMAGES, label_file(20), "byte 0", "the number 2,049"),
    (IMAGES, image_file(5, side=32), "byte 8", "32×32"),
    (IMAGES, image_file(0), "byte 4", "no entry"),
    (IMAGES, VALID[:4] + b"\xff\xff\xff\xff" + VALID[8:], "found 15,696", "4,294,967,295 entr"),
    (LABELS, label_file(21), "byte 4", "a count of 21 labels, expected 20"),
    (LABELS, FILES[LABELS][:15] + b"\x1a" + bytes(12), "byte 15", "the label 26"),
])  # fmt: skip
def test_a_damaged_mnist_file_is_reported_with_its_place(
    tmp_path: Path, packed: bool, name: str, content: bytes, place: str, words: str
) -> None:
    sentence = mnist_error(write_mnist(tmp_path, packed, **{name: content}))
    assert sentence.startswith(f"{name}{'.gz' if packed else ''}: {place}")
    assert words in sentence


def test_folders_without_mnist_are_refused(tmp_path: Path) -> None:
    assert "found no folder" in mnist_error(tmp_path / "absent")
    assert f"found no {IMAGES} and no {LABELS}" in mnist_error(tmp_path)
    (write_mnist(tmp_path) / LABELS).unlink()
    with pytest.raises(MeasurementError, match=f"found no {LABELS},"):
        measure_study("backend_speedup", tmp_path / "records", "--data", str(tmp_path))
    assert not (tmp_path / "records").exists(), "refused before the run begins"


def test_other_images_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fashion-MNIST has the same format and number of images, but brighter images."""
    monkeypatch.setattr(datasets, "_TRAINING_IMAGES", 20)
    folder = write_mnist(tmp_path)
    assert "a mean brightness of 0.5020, expected MNIST's 0.1307" in mnist_error(folder)
