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

from experiments.backends import perceptron
from experiments.backends.case import Case, Images, Part, prepared, repeated
from experiments.backends.libraries import ON_CPU, ON_GPU, Library, load
from experiments.backends.operations import Operations, timed
from experiments.backends.perceptron import (
    CLASSES,
    Parameters,
    accuracy,
    backward,
    forward,
    iteration,
    loss,
)
from experiments.datasets.images import digits
from experiments.harness.study import SEED, UnavailableError
from report.studies.backend_speedup.subject import CALLS
from report.theory.work import parameter_count

#: How far single precision may drift apart in 20 iterations: libraries sum in different orders.
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


@lru_cache
def library(name: str) -> Library:
    return load(name, torch.get_num_threads())


@lru_cache
def pictures() -> Images:
    pixels, labels = digits().train
    return pixels.reshape(len(labels), -1), labels


def case(name: str, samples: int = 64, dtype: str = "float32") -> Case:
    return Case(library(name), {"hidden": 10, "samples": samples, "dtype": dtype}, pictures())


def descended(name: str, dtype: str) -> tuple[Parameters, list[float]]:
    """Parameters of NumPy after twenty iterations, and the loss before each."""
    chosen = case(name, 200, dtype)
    part, parameters, losses = chosen.placed(), chosen.parameters(), []
    step = chosen.step(part)
    for _ in range(20):
        sums = forward(chosen.ops, parameters, part.images).z2
        losses.append(loss(chosen.library.xp, sums, part.targets))
        parameters = step(parameters)
    assert {str(p.dtype).removeprefix("torch.") for p in parameters} == {dtype}
    return Parameters(*map(chosen.library.to_host, parameters)), losses


# ------------------------------------------------------------------------- equal everywhere


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_twenty_iterations_give_the_same_weights_as_numpy(dtype: str) -> None:
    (expected, losses), (found, others) = (descended(name, dtype) for name in ("numpy", "torch"))
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=0, atol=TOLERANCE[dtype])
    np.testing.assert_allclose(others, losses, rtol=TOLERANCE[dtype])


# ------------------------------------------------------------------- right by PyTorch itself


def by_autograd(parameters: Parameters, part: Part) -> tuple[float, Parameters]:
    """Loss and gradients by PyTorch's own layers, in double precision."""
    w1, b1, w2, b2 = (torch.tensor(value, requires_grad=True) for value in parameters)
    hidden = functional.relu(functional.linear(torch.tensor(part.images).T, w1, b1[:, 0]))
    scores = functional.linear(hidden, w2, b2[:, 0])
    found = functional.cross_entropy(scores, torch.tensor(part.targets).T)
    found.backward()
    return float(found.detach()), Parameters(*(p.grad.numpy() for p in (w1, b1, w2, b2)))


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 20), st.integers(0, 2**16), st.integers(1, 30))
def test_gradients_are_those_of_autograd(hidden: int, seed: int, samples: int) -> None:
    random, xp = np.random.RandomState(seed), library("numpy").xp
    drawn, ops = perceptron.initial(hidden, seed), Operations(xp)
    biases = (random.normal(size=drawn.b1.shape), random.normal(size=drawn.b2.shape))
    parameters = drawn._replace(b1=biases[0], b2=biases[1])
    part = prepared(repeated(pictures(), samples), "float64")
    activations = forward(ops, parameters, part.images)
    found = backward(ops, parameters, activations, *part)
    wanted_loss, wanted = by_autograd(parameters, part)
    assert loss(xp, activations.z2, part.targets) == pytest.approx(wanted_loss)
    for gradient, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ON_CPU)
def test_sums_whose_results_are_known(name: str) -> None:
    lib = library(name)
    sums = np.full((10, 2), 1e4, dtype=np.float32)
    sums[3, 0] = 2e4  # does not overflow
    found = lib.to_host(Operations(lib.xp).softmax(lib.place(sums, "float32")))
    np.testing.assert_allclose(found[:, 1], 0.1, rtol=1e-6)
    assert found[3, 0] == 1
    targets, right, even = (
        lib.place(each, "float64")
        for each in (np.eye(CLASSES)[:, [1, 2]], np.eye(CLASSES)[:, [1, 3]], np.zeros((CLASSES, 2)))
    )
    assert loss(lib.xp, even, targets) == pytest.approx(np.log(10))
    assert accuracy(lib.xp, right, targets) == 0.5


class Counted(np.ndarray[Any, Any]):
    """An array of NumPy that counts the calls made with it."""

    made = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **named: Any) -> Any:
        return _counted(getattr(ufunc, method), given, named)

    def __array_function__(self, function: Any, types: Any, given: Any, named: Any) -> Any:
        return _counted(function, given, named)

    def __getitem__(self, place: Any) -> Any:
        return _counted(np.ndarray.__getitem__, (self, place), {})


def _counted(function: Any, given: Any, named: Any) -> Any:
    Counted.made += 1
    plain = [np.asarray(each) if isinstance(each, Counted) else each for each in given]
    return np.asarray(function(*plain, **named)).view(Counted)


def test_the_calls_of_an_iteration_are_those_of_theory() -> None:
    """Calls on NumPy's own namespace: the standard's clips by several of them."""
    chosen = case("numpy", samples=8)
    part = chosen.placed()
    parameters = Parameters(*(each.view(Counted) for each in chosen.parameters()))
    Counted.made = 0
    iteration(Operations(np), parameters, part.images.view(Counted), part.targets)
    assert Counted.made == sum(CALLS.values())


def test_the_operations_are_the_whole_iteration() -> None:
    """With a clock that ticks once a reading, their times count the operations."""
    chosen, ticks, told = case("numpy"), iter(range(10_000)), []
    watched = timed(
        chosen.library.xp, lambda a: a, lambda: next(ticks), lambda q, t: told.append(q)
    )
    part, parameters = chosen.placed(), chosen.parameters()
    plain = iteration(chosen.ops, parameters, *part)
    for value, wanted in zip(iteration(watched, parameters, *part), plain, strict=True):
        np.testing.assert_array_equal(value, wanted)
    assert (told.count("matrix_product_time"), told.count("update_time")) == (5, 4)
    counted = sum(map(parameter_count, perceptron.layers(10, 5, "float32")))
    assert counted == sum(p.size for p in parameters) == 7960  # as in the source


# ------------------------------------------------------------------------------- libraries


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("name", ON_GPU)
def test_a_library_of_a_gpu_that_is_not_there_is_unavailable(name: str) -> None:
    with pytest.raises(UnavailableError, match=r"install|--device cuda"):
        load(name, 1)


def test_nothing_but_the_array_api_standard_is_used() -> None:
    """array-api-strict has what the standard names, and nothing else."""
    strict = pytest.importorskip("array_api_strict")
    host, values = prepared(repeated(pictures(), 6), "float64"), perceptron.initial(10, SEED)
    part = Part(*map(strict.asarray, host))
    parameters = Parameters(*map(strict.asarray, values))
    found = iteration(Operations(strict), parameters, *part)
    wanted = iteration(Operations(library("numpy").xp), values, *host)
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-12, atol=1e-15)
    sums = forward(Operations(strict), parameters, part.images).z2
    assert loss(strict, sums, part.targets) > 0
    assert 0 <= accuracy(strict, sums, part.targets) <= 1
