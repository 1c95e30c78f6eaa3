"""What both networks share: parameters, gradient descent, loss and accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from experiments.backends.operations import Array, Namespace, Operations

CLASSES: Final = 10


class Parameters(NamedTuple):
    """Weights and biases of two layers, or the gradients by them; a bias has one column."""

    w1: Array
    b1: Array
    w2: Array
    b2: Array


#: What a forward pass leaves for the backward pass: its own NamedTuple for each network, with the
#: sums before the last softmax as ``z2`` and the probabilities as ``a2``, ``(10, samples)``.
Activations: TypeAlias = Any


@dataclass(frozen=True)
class Network:
    """A network as pure functions.

    ``initial`` makes its parameters from a seed as float64 arrays of NumPy, the same for every
    library.  ``forward`` and ``backward`` take the operations of a library first; images are
    ``(784, samples)``, targets one-hot ``(10, samples)``.  ``rate`` is that of learning.
    """

    initial: Callable[[int], Parameters]
    forward: Callable[[Operations, Parameters, Array], Activations]
    backward: Callable[[Operations, Parameters, Activations, Array, Array], Parameters]
    rate: float


def update(
    ops: Operations, parameters: Parameters, gradients: Parameters, rate: float
) -> Parameters:
    """The parameters after one step of gradient descent."""
    pairs = zip(parameters, gradients, strict=True)
    return Parameters(*(ops.descend(parameter, gradient, rate) for parameter, gradient in pairs))


def iteration(
    network: Network, ops: Operations, parameters: Parameters, images: Array, targets: Array
) -> Parameters:
    """One iteration of full-batch gradient descent."""
    activations = network.forward(ops, parameters, images)
    gradients = network.backward(ops, parameters, activations, images, targets)
    return update(ops, parameters, gradients, network.rate)


def loss(xp: Namespace, sums: Array, targets: Array) -> float:
    """Mean cross-entropy (nats a sample) of the softmax of ``sums``, against one-hot targets."""
    highest = xp.max(sums, axis=0, keepdims=True)
    logarithm = highest + xp.log(xp.sum(xp.exp(sums - highest), axis=0, keepdims=True))
    return float(xp.sum(targets * (logarithm - sums)) / sums.shape[1])


def accuracy(xp: Namespace, sums: Array, targets: Array) -> float:
    """The share of samples whose highest sum is that of their class, 0 to 1."""
    right = xp.argmax(sums, axis=0) == xp.argmax(targets, axis=0)
    return int(xp.sum(xp.astype(right, xp.int32))) / int(sums.shape[1])


def he_weights(random: Any, rows: int, columns: int) -> Array:
    """Normal with a variance of 2 over the inputs of a row (He et al., ICCV 2015, equation 10)."""
    return random.standard_normal((rows, columns)) * math.sqrt(2 / columns)
