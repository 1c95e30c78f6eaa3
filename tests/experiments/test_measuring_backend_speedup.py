"""The study backend_speedup: its plan, and cases in processes of their own."""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from conftest import of
from image_files import write_idx

from experiments import backend_speedup
from experiments.backend_speedup import ITERATIONS, STUDY, TRAINED_ON, files, layers, measure_case
from experiments.backends import child
from experiments.backends.child import Pictures, Task
from experiments.backends.libraries import ON_CPU, ON_GPU
from experiments.datasets import digits
from experiments.harness.outcomes import OutcomeError, UnavailableError
from experiments.harness.selection import select
from experiments.harness.study import QUICK, Factors, Session
from experiments.harness.sweep import run_case
from report.records.layers import Convolution, Linear
from report.records.quantities import QUANTITIES
from report.theory.work import training_macs

FULL = select(STUDY, quick=False).cases
FULL_ON_GPU = select(STUDY.on("cuda"), quick=False).cases
QUICK_CASES = select(STUDY, quick=True).cases
SESSION = Session("cpu", msgspec.structs.replace(QUICK.protocol, case_budget_s=0.05))
HAS_JAX = importlib.util.find_spec("jax") is not None

BASE: Factors = {
    "subject": "training",
    "network": "perceptron",
    "dtype": "float32",
    "dataset": "digits",
    "hidden": 10,
    "samples": 1438,
    "backend": "numpy",
    "execution": "eager",
}


# ------------------------------------------------------------------------------------ plan


def test_the_source_is_trained_in_two_precisions() -> None:
    found = of(FULL, subject="training", network="perceptron", backend="numpy")
    assert [c["dtype"] for c in found] == ["float32", "float64"]
    assert {(c["hidden"], c["samples"]) for c in found} == {(10, len(digits().train))}
    assert TRAINED_ON["digits"] == len(digits().train) == 1438
    assert len(QUICK_CASES) < 25


def test_every_library_of_a_cpu_goes_through_the_same_sizes() -> None:
    def sizes(backend: str) -> list[list[tuple[str, object]]]:
        cases = of(FULL, backend=backend, execution="eager")
        return [[item for item in case.items() if item[0] != "backend"] for case in cases]

    assert sizes("numpy") == sizes("torch") == sizes("jax")


def test_width_and_samples_are_swept() -> None:
    swept = of(FULL, subject="scaling", network="perceptron", backend="torch")
    widths = {c["hidden"] for c in swept if c["samples"] == 1438 and c["dtype"] == "float32"}
    assert widths == {10, 32, 128, 512, 2048, 4096}
    assert {c["hidden"] for c in swept if c["dtype"] == "float64"} == {10, 128, 2048}
    for hidden in (10, 128):
        samples = {c["samples"] for c in swept if c["hidden"] == hidden}
        assert samples == {1438, 1000, 4000, 16000, 60000}


def test_on_a_cpu_one_case_says_that_a_library_needs_a_gpu() -> None:
    for backend in ON_GPU:
        (found,) = of(FULL, backend=backend)
        assert found == {**BASE, "backend": backend}
        with pytest.raises(UnavailableError, match="--device cuda"):
            measure_case(found, SESSION)


def test_on_a_gpu_all_libraries_go_through_all_sizes() -> None:
    counts = Counter((case["backend"], case["execution"]) for case in FULL_ON_GPU)
    assert len({counts[backend, "eager"] for backend in (*ON_CPU, *ON_GPU)}) == 1
    assert {backend for backend, execution in counts if execution == "compiled"} == {"jax"}


def test_a_folder_of_mnist_takes_the_place_of_the_digits() -> None:
    found = select(STUDY, quick=False, images=True).cases
    assert {case["dataset"] for case in found} == {"mnist"}
    assert {case["samples"] for case in of(found, subject="training")} == {59_000}


@pytest.mark.parametrize("case", FULL[:1] + tuple(of(FULL, network="convnet"))[:1])
def test_the_layers_are_those_of_the_case(case: Factors) -> None:
    found = layers(case)
    kinds = (Linear, Convolution)
    assert all(layer.input_shape[0] == case["samples"] for layer in found)
    assert all(layer.dtype == case["dtype"] for layer in found)
    assert isinstance(found[0], kinds)
    assert training_macs(found) > 2 * 7940 * 1438


# ------------------------------------------------------------------- processes of their own


def case_of(**changes: object) -> Factors:
    return {**BASE, "subject": "scaling", "samples": 100, **changes}  # type: ignore[dict-item]


def measured(**changes: object) -> dict[str, tuple[float, ...]]:
    """What is measured once."""
    return {s.quantity: s.samples for s in measure_case(case_of(**changes), SESSION)}


def timed(**changes: object) -> dict[str, tuple[float, ...]]:
    """What each process measures."""
    task = backend_speedup._task(case_of(**changes), replace(SESSION, process=1))
    return {s.quantity: s.samples for s in child.isolated_call(child.timed, task)}


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_a_case_is_measured_in_a_process_of_its_own(backend: str) -> None:
    times = timed(backend=backend)
    assert set(times) <= set(QUANTITIES)
    assert len(times["first_call_time"]) == 1
    assert len(times["time"]) == len(times["cpu_time"]) >= SESSION.protocol.minimum_samples
    assert not any(name.startswith(("allocated", "resident")) for name in times)
    found = measured(backend=backend)
    assert "time" not in found
    assert found["allocated_input"] == (4 * 794 * 100,)
    assert found["resident_start"][0] < found["resident_import"][0]
    assert found["resident_import"][0] <= found["resident_peak"][0]


@pytest.mark.skipif(not HAS_JAX, reason="JAX is optional and not installed")
@pytest.mark.parametrize(("dtype", "element"), [("float32", 4), ("float64", 8)])
def test_jax_computes_in_the_precision_asked_for(dtype: str, element: int) -> None:
    found = measured(backend="jax", dtype=dtype)
    assert found["allocated_input"] == (element * 794 * 100,)
    assert "allocated_peak" not in found


@pytest.mark.skipif(not HAS_JAX, reason="JAX is optional and not installed")
def test_a_compiled_iteration_has_no_phases() -> None:
    times = timed(backend="jax", execution="compiled")
    assert not {"forward_time", "matrix_product_time"} & set(times)
    found = measured(backend="jax", execution="compiled")
    assert found["allocated_peak"][0] > found["allocated_before"][0]


def test_a_training_has_its_course(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ITERATIONS, "perceptron", 12)
    assert len(timed(subject="training", samples=200)["time"]) == 12
    found = measured(subject="training", samples=200)
    assert len(found["train_loss"]) == len(found["test_accuracy"]) == 13
    assert found["train_loss"][-1] < found["train_loss"][0]


def test_the_convolutional_network_is_measured_with_its_own_operations() -> None:
    assert {"unfold_time", "pooling_time"} <= set(timed(network="convnet", samples=10))


def test_what_goes_wrong_in_the_process_is_the_outcome_of_the_case() -> None:
    case, _ = run_case(STUDY, {**BASE, "subject": "scaling", "hidden": 10**13}, SESSION)
    assert case.status == "out_of_memory"


def test_a_process_that_ends_without_a_result_has_failed() -> None:
    task = Task(factors={**BASE, "backend": "none"}, threads=1, protocol=SESSION.protocol)
    with pytest.raises(OutcomeError, match="KeyError"):
        child.isolated_call(child.measured, task)


def test_the_process_uses_the_threads_of_the_run() -> None:
    task = Task(factors=BASE, threads=1, protocol=SESSION.protocol)
    found = child.isolated_call(child.described, task)
    assert found["threads"] == 1
    assert all(pool["num_threads"] == 1 for pool in found["thread_pools"])


def test_pictures_go_to_the_process_and_come_back_as_arrays() -> None:
    split = digits().train
    pixels, labels = Pictures(split.pixels[:5].tobytes(), split.labels[:5].tobytes()).arrays()
    np.testing.assert_array_equal(pixels, split.pixels[:5].reshape(5, -1))
    np.testing.assert_array_equal(labels, split.labels[:5])


# ----------------------------------------------------------------------------------- files


def test_a_training_leaves_its_images_and_what_its_library_is() -> None:
    found = {file.name: file for file in files(BASE, SESSION)}
    assert set(found) == {"images.json", "sample.json", "backend.numpy.json"}
    assert json.loads(found["backend.numpy.json"].content)["version"] == np.__version__
    assert all(re.fullmatch(r"[a-z0-9]+([._-][a-z0-9]+)*", name) for name in found)
    assert json.loads(found["images.json"].content)["train"]["images"] == 1438


def test_other_cases_leave_no_files() -> None:
    assert files({**BASE, "subject": "scaling"}, SESSION) == ()


def test_of_mnist_a_thousand_images_are_held_out(tmp_path: Path) -> None:
    write_idx(tmp_path, train=1_500, test=300)
    backend_speedup._images.cache_clear()
    images = backend_speedup._images("mnist", tmp_path)
    assert (len(images.train), len(images.test)) == (800, 1_000)
