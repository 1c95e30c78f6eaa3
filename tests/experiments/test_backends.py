"""A network from scratch: equal on every array library, and right by PyTorch's own operations."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from experiments import backend_speedup
from experiments.backend_speedup import Case, Part, placed
from experiments.backends import perceptron
from experiments.backends.libraries import ON_GPU, Library, load
from experiments.backends.perceptron import Operations, Parameters, accuracy, iteration, loss
from experiments.datasets import Split, handwritten
from experiments.harness.study import QUICK, SEED, UnavailableError
from report.studies.backend_speedup.source import OPERATIONS, PERFORMANCE
from report.studies.backend_speedup.subject import CALLS
from report.theory.work import parameter_count


@lru_cache
def library(name: str) -> Library:
    if name == "strict":  # which has what the array API standard names, and nothing else
        strict = pytest.importorskip("array_api_strict")
        return Library(name, strict, strict.__version__, strict.Device("CPU_DEVICE"))
    return load(name, torch.get_num_threads())


def part_of(samples: int) -> Part:
    return placed(library("numpy"), "float64", handwritten(None).train, samples)


def case_of(name: str, dtype: str = "float32") -> Case:
    """More images than there are, so that some come twice."""
    few = Split(*(array[:150] for array in handwritten(None).train))
    factors = {"hidden": 10, "samples": 200, "dtype": dtype}
    return backend_speedup.case_of(library(name), factors, few)


# ------------------------------------------------------------------------- equal everywhere


#: How far single precision may drift apart in 20 iterations: libraries sum in different orders.
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("name", ["torch", "strict"])
def test_twenty_iterations_give_the_same_weights_as_numpy(
    name: str, dtype: str, tolerance: float
) -> None:
    ends = []
    for case in (case_of("numpy", dtype), case_of(name, dtype)):
        part, parameters = case.train, case.parameters
        for _ in range(20):
            parameters = case.iterate(parameters)
        assert {str(p.dtype).rpartition(".")[2] for p in parameters} == {dtype}
        xp, sums = case.library.xp, perceptron.forward(case.ops, parameters, part.images).z2
        known = [measure(xp, sums, part.targets) for measure in (loss, accuracy)]
        ends.append([*(np.asarray(p) for p in parameters), *known])
    for found, wanted in zip(*ends, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)


# ------------------------------------------------------------------- right by PyTorch itself


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 20), st.integers(0, 2**16), st.integers(1, 30))
def test_gradients_are_those_of_autograd(hidden: int, seed: int, samples: int) -> None:
    random, xp = np.random.RandomState(seed), library("numpy").xp
    drawn, ops, part = perceptron.initial(hidden, seed), Operations(xp), part_of(samples)
    b1, b2 = (random.normal(size=bias.shape) for bias in (drawn.b1, drawn.b2))
    parameters = drawn._replace(b1=b1, b2=b2)
    activations = perceptron.forward(ops, parameters, part.images)
    found = perceptron.backward(ops, parameters, activations, *part)

    tensors = [torch.tensor(value, requires_grad=True) for value in parameters]
    hidden_sums = functional.linear(torch.tensor(part.images).T, tensors[0], tensors[1][:, 0])
    scores = functional.linear(functional.relu(hidden_sums), tensors[2], tensors[3][:, 0])
    wanted = functional.cross_entropy(scores, torch.tensor(part.targets).T)
    wanted.backward()
    assert loss(xp, activations.z2, part.targets) == pytest.approx(float(wanted.detach()))
    for gradient, tensor in zip(found, tensors, strict=True):
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_sums_whose_results_are_known() -> None:
    xp = library("torch").xp
    sums = torch.full((10, 2), 1e4)
    sums[3, 0] = 2e4  # does not overflow
    found = Operations(xp).softmax(sums)
    np.testing.assert_allclose(found[:, 1], 0.1, rtol=1e-6)
    assert found[3, 0] == 1
    identity = torch.eye(10, dtype=torch.float64)
    assert accuracy(xp, identity[:, [1, 3]], identity[:, [1, 2]]) == 0.5


class Counted(np.ndarray[Any, Any]):
    """An array of NumPy that counts the calls made with it."""

    made = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **named: Any) -> Any:
        return _counted(getattr(ufunc, method), given, named)

    def __array_function__(self, function: Any, types: Any, given: Any, named: Any) -> Any:
        return _counted(function, given, named)


def _counted(function: Any, given: Any, named: Any) -> Any:
    Counted.made += 1
    plain = [np.asarray(each) if isinstance(each, Counted) else each for each in given]
    return np.asarray(function(*plain, **named)).view(Counted)


def test_the_calls_of_an_iteration_are_those_of_theory() -> None:
    """Calls on NumPy's own namespace: the standard's clips by several of them."""
    part = part_of(8)
    parameters = Parameters(*(each.view(Counted) for each in perceptron.initial(10, SEED)))
    Counted.made = 0
    iteration(Operations(np), parameters, part.images.view(Counted), part.targets)
    assert Counted.made == sum(CALLS.values())
    counted = sum(map(parameter_count, perceptron.layers(10, 5, "float32")))
    assert counted == sum(p.size for p in parameters) == 7960  # as in the source


def test_operations_that_are_timed_compute_the_same_and_are_all_of_the_source() -> None:
    case, told = case_of("numpy"), list[str]()
    plain, (xp, wait) = Operations(case.library.xp), (case.library.xp, case.library.wait)
    ticks = iter(range(10_000))
    watched = perceptron.timed(xp, wait, lambda: next(ticks), lambda name, _: told.append(name))
    ends = [iteration(ops, case.parameters, *case.train) for ops in (plain, watched)]
    for value, wanted in zip(*ends, strict=True):
        np.testing.assert_array_equal(value, wanted)
    assert (told.count("matrix_product_time"), told.count("update_time")) == (5, 4)
    found = backend_speedup.whole_times(case, QUICK) | backend_speedup.parts_times(case, QUICK)
    assert found.keys() >= {*PERFORMANCE, *OPERATIONS}


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("name", ON_GPU)
def test_a_library_of_a_gpu_that_is_not_there_is_unavailable(name: str) -> None:
    with pytest.raises(UnavailableError, match=r"install|--device cuda"):
        load(name, 1)
