"""Networks from scratch: equal on every array library, and right by PyTorch's own operations."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from experiments.backends import convnet, memory, perceptron
from experiments.backends.learning import (
    CLASSES,
    Network,
    Parameters,
    accuracy,
    iteration,
    loss,
    update,
)
from experiments.backends.libraries import ON_CPU, ON_GPU, Library, load
from experiments.backends.operations import operations, timed
from experiments.backends.subject import (
    Images,
    Part,
    Subject,
    prepared,
    repeated,
    subject,
)
from experiments.datasets import digits
from experiments.harness.outcomes import UnavailableError
from experiments.harness.study import SEED
from report.records.layers import Layer
from report.records.record import Series
from report.studies.backend_speedup.subject import Setting, calls
from report.theory.memory import parameter_bytes
from report.theory.work import parameter_count

HAS_JAX = importlib.util.find_spec("jax") is not None
NEEDS_JAX = pytest.mark.skipif(not HAS_JAX, reason="JAX is optional and not installed")
LIBRARIES = [pytest.param(name, marks=NEEDS_JAX if name == "jax" else ()) for name in ON_CPU]
OTHERS = LIBRARIES[1:]
NETWORKS = {"perceptron": perceptron.network(10), "convnet": convnet.network()}

#: How far single precision may drift apart in 20 iterations: libraries sum in different orders.
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


@lru_cache
def library(name: str) -> Library:
    return load(name, torch.get_num_threads())


@lru_cache
def pictures(part: str = "train") -> Images:
    split = getattr(digits(), part)
    return split.pixels.reshape(len(split), -1), split.labels


def case(
    name: str, network: str, samples: int = 64, dtype: str = "float32", **more: Any
) -> Subject:
    factors = {
        "backend": name,
        "network": network,
        "hidden": 10,
        "samples": samples,
        "dtype": dtype,
        "execution": "eager",
        **more,
    }
    return subject(library(name), factors, pictures())


def descended(chosen: Subject, count: int) -> tuple[Parameters, list[float]]:
    """Parameters of NumPy after ``count`` iterations, and the loss before each."""
    part, parameters = chosen.placed(), chosen.parameters()
    step, losses = chosen.step(part), []
    for _ in range(count):
        sums = chosen.network.forward(chosen.ops, parameters, part.images).z2
        losses.append(loss(chosen.library.xp, sums, part.targets))
        parameters = step(parameters)
    return Parameters(*map(chosen.library.to_host, parameters)), losses


# ------------------------------------------------------------------------- equal everywhere


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    ("name", "dtype", "execution"),
    [
        *(pytest.param(*p.values, "float32", "eager", marks=p.marks) for p in OTHERS),
        ("torch", "float64", "eager"),
        pytest.param("jax", "float32", "compiled", marks=NEEDS_JAX),
    ],
)
def test_twenty_iterations_give_the_same_weights_as_numpy(
    name: str, network: str, dtype: str, execution: str
) -> None:
    expected, losses = descended(case("numpy", network, 200, dtype), 20)
    found, others = descended(case(name, network, 200, dtype, execution=execution), 20)
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=0, atol=TOLERANCE[dtype])
    np.testing.assert_allclose(others, losses, rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("network", NETWORKS)
def test_no_operation_leaves_the_precision_asked_for(name: str, network: str) -> None:
    chosen = case(name, network)
    part, parameters = chosen.placed(), chosen.parameters()
    activations = chosen.network.forward(chosen.ops, parameters, part.images)
    gradients = chosen.network.backward(
        chosen.ops, parameters, activations, part.images, part.targets
    )
    updated = update(chosen.ops, parameters, gradients, chosen.network.rate)
    assert {str(a.dtype).removeprefix("torch.") for a in (*activations, *gradients, *updated)} == {
        "float32"
    }
    assert [tuple(g.shape) for g in gradients] == [tuple(p.shape) for p in parameters]


# ------------------------------------------------------------------- right by PyTorch itself


def by_autograd(network: str, parameters: Parameters, part: Part) -> tuple[float, Parameters]:
    """Loss and gradients by PyTorch's own layers, in double precision."""
    w1, b1, w2, b2 = (torch.tensor(value, requires_grad=True) for value in parameters)
    images = torch.tensor(part.images).T
    if network == "convnet":
        pixels = images.reshape(-1, 1, convnet.SIDE, convnet.SIDE)
        kernel = w1.reshape(convnet.CHANNELS, 1, convnet.KERNEL, convnet.KERNEL)
        maps = functional.relu(functional.conv2d(pixels, kernel, b1[:, 0]))
        hidden = functional.max_pool2d(maps, 2).flatten(1)
    else:
        hidden = functional.relu(functional.linear(images, w1, b1[:, 0]))
    scores = functional.linear(hidden, w2, b2[:, 0])
    found = functional.cross_entropy(scores, torch.tensor(part.targets).T)
    found.backward()
    return float(found.detach()), Parameters(*(p.grad.numpy() for p in (w1, b1, w2, b2)))


@settings(deadline=None, max_examples=10)
@given(st.sampled_from(sorted(NETWORKS)), st.integers(0, 2**16), st.integers(1, 30))
def test_gradients_are_those_of_autograd(network: str, seed: int, samples: int) -> None:
    """Also with biases, with which the maxima of a flat window tie."""
    random = np.random.RandomState(seed)
    drawn = NETWORKS[network].initial(seed)
    biases = (random.normal(size=drawn.b1.shape), random.normal(size=drawn.b2.shape))
    parameters = drawn._replace(b1=biases[0], b2=biases[1])
    part = prepared(repeated(pictures(), samples), "float64")
    ops = operations(library("numpy").xp)
    activations = NETWORKS[network].forward(ops, parameters, part.images)
    found = NETWORKS[network].backward(ops, parameters, activations, part.images, part.targets)
    wanted_loss, wanted = by_autograd(network, parameters, part)
    assert loss(library("numpy").xp, activations.z2, part.targets) == pytest.approx(wanted_loss)
    for gradient, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LIBRARIES)
def test_large_sums_do_not_overflow_softmax(name: str) -> None:
    lib = library(name)
    sums = np.full((10, 2), 1e4, dtype=np.float32)
    sums[3, 0] = 2e4
    found = lib.to_host(operations(lib.xp).softmax(lib.place(sums, "float32")))
    np.testing.assert_allclose(found[:, 1], 0.1, rtol=1e-6)
    assert found[3, 0] == 1


def test_accuracy_and_loss_of_sums_that_are_known() -> None:
    xp = library("numpy").xp
    targets = np.eye(CLASSES)[:, [1, 2]]
    assert loss(xp, np.zeros((CLASSES, 2)), targets) == pytest.approx(np.log(10))
    assert accuracy(xp, np.eye(CLASSES)[:, [1, 3]], targets) == 0.5


class Counted(np.ndarray[Any, Any]):
    """An array of NumPy that counts the calls made with it."""

    made = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **named: Any) -> Any:
        return _counted(getattr(ufunc, method)(*map(_plain, given), **named))

    def __array_function__(self, function: Any, types: Any, given: Any, named: Any) -> Any:
        return _counted(function(*map(_plain, given), **named))

    def __getitem__(self, place: Any) -> Any:
        return _counted(_plain(self)[place])


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    return np.asarray(value) if isinstance(value, Counted) else value


def _counted(found: Any) -> Any:
    Counted.made += 1
    return np.asarray(found).view(Counted)


def test_the_calls_of_an_iteration_are_those_of_theory() -> None:
    """Calls on NumPy's own namespace: the standard's clips by several of them."""
    made = case("numpy", "perceptron", samples=8)
    part = made.placed()
    parameters = Parameters(*(each.view(Counted) for each in made.parameters()))
    Counted.made = 0
    iteration(made.network, operations(np), parameters, part.images.view(Counted), part.targets)
    assert Counted.made == calls(Setting("scaling", "float32", 8, "digits"))


# -------------------------------------------------------------------------------- learning


@pytest.mark.parametrize(
    ("layers", "network", "expected"),
    [
        (perceptron.layers(10, 5, "float32"), perceptron.network(10), 7960),  # as in the source
        (convnet.layers(5, "float32"), convnet.network(), 80 + 1352 * 10 + 10),
    ],
)
def test_the_layers_have_the_parameters_that_are_trained(
    layers: tuple[Layer, ...], network: Network, expected: int
) -> None:
    counted = sum(parameter_count(layer) for layer in layers)
    assert counted == sum(value.size for value in network.initial(SEED))
    assert counted == expected


# ----------------------------------------------------------------------------------- times


@pytest.mark.parametrize("network", NETWORKS)
def test_the_operations_are_the_whole_iteration(network: str) -> None:
    """With a clock that ticks once a reading, their times count the operations."""
    chosen, ticks, told = case("numpy", network), iter(range(10_000)), []
    watched = timed(chosen.ops, lambda a: a, lambda: next(ticks), lambda q, t: told.append(q))
    part, parameters = chosen.placed(), chosen.parameters()
    plain = iteration(chosen.network, chosen.ops, parameters, part.images, part.targets)
    found = iteration(chosen.network, watched, parameters, part.images, part.targets)
    for value, wanted in zip(found, plain, strict=True):
        np.testing.assert_array_equal(value, wanted)
    assert told.count("matrix_product_time") == 5
    assert told.count("update_time") == 4
    assert ("unfold_time" in told) == (network == "convnet")


# ---------------------------------------------------------------------------------- memory


def bytes_of(series: tuple[Series, ...]) -> dict[str, int]:
    return {s.quantity: int(s.samples[0]) for s in series if len(s.samples) == 1}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LIBRARIES)
def test_the_components_have_the_bytes_that_theory_says(name: str, dtype: str) -> None:
    if name == "jax" and dtype == "float64":
        pytest.skip("JAX computes in double precision only if it is told so before its import")
    element, samples, hidden = np.dtype(dtype).itemsize, 300, 10
    found = bytes_of(memory.measured(case(name, "perceptron", samples, dtype)))
    parameters = sum(parameter_bytes(layer) for layer in perceptron.layers(hidden, 1, dtype))  # type: ignore[arg-type]
    assert found["allocated_input"] == element * (784 + 10) * samples
    assert found["allocated_parameters"] == found["allocated_gradients"] == parameters
    assert found["allocated_activations"] == element * (2 * hidden + 20) * samples
    assert found["allocated_workspace"] == 0
    assert found["allocated_before"] == found["allocated_input"] + parameters
    live = found["allocated_before"] + found["allocated_activations"] + 2 * parameters
    assert found["allocated_after"] == live
    if name != "jax":
        assert found["allocated_peak"] >= live
    maps, pooled = 676, 169
    images = bytes_of(memory.measured(case(name, "convnet", 20, dtype)))
    assert images["allocated_activations"] == element * 20 * (
        9 * maps + 16 * maps + 8 * pooled + 20
    )


@NEEDS_JAX
def test_xla_accounts_for_a_compiled_iteration() -> None:
    found = bytes_of(memory.measured(case("jax", "perceptron", 100, execution="compiled")))
    assert found["allocated_before"] == found["allocated_input"] + found["allocated_parameters"]
    # The new parameters stand beside the old ones; XLA adds a table of pointers to them.
    grown = found["allocated_after"] - found["allocated_before"]
    assert 0 <= grown - found["allocated_parameters"] < 100
    assert found["allocated_peak"] >= found["allocated_after"]


# ------------------------------------------------------------------------------- libraries


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("name", ON_GPU)
def test_a_library_of_a_gpu_that_is_not_there_is_unavailable(name: str) -> None:
    with pytest.raises(UnavailableError, match=r"install|--device cuda"):
        load(name, 1)


# -------------------------------------------------------------------------------- standard


@pytest.mark.parametrize("network", NETWORKS)
def test_nothing_but_the_array_api_standard_is_used(network: str) -> None:
    """array-api-strict has what the standard names, and nothing else."""
    strict = pytest.importorskip("array_api_strict")
    host, ops = prepared(repeated(pictures(), 6), "float64"), operations(strict)
    part = Part(*(strict.asarray(value) for value in (host.images, host.targets)))
    values = NETWORKS[network].initial(SEED)
    parameters = Parameters(*(strict.asarray(value) for value in values))
    found = iteration(NETWORKS[network], ops, parameters, part.images, part.targets)
    xp = library("numpy").xp
    wanted = iteration(NETWORKS[network], operations(xp), values, host.images, host.targets)
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-12, atol=1e-15)
    sums = NETWORKS[network].forward(ops, parameters, part.images).z2
    assert loss(strict, sums, part.targets) > 0
    assert 0 <= accuracy(strict, sums, part.targets) <= 1
