"""The perceptron with one hidden layer, 784-h-10, by the equations of the source study.

Matrices have a row a feature and a column a sample; X is ``(784, m)``, Y one-hot ``(10, m)``.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from experiments.backends.operations import Array, Namespace, Operations
from report.records.layers import Activation, DType, Layer, Linear, Softmax

PIXELS: Final = 784
CLASSES: Final = 10
#: The rate of learning, as in the source study.
RATE: Final = 0.1


class Parameters(NamedTuple):
    """Weights and biases of two layers, or the gradients by them; a bias has one column."""

    w1: Array
    b1: Array
    w2: Array
    b2: Array


class Activations(NamedTuple):
    """Sums and activations of both layers."""

    z1: Array
    a1: Array
    z2: Array
    a2: Array


def initial(hidden: int, seed: int) -> Parameters:
    """Weights drawn from ``seed``, biases of 0, as float64 arrays of NumPy.

    Normal with a variance of 2 over the inputs of a row (He et al., ICCV 2015, equation 10).
    """
    import numpy as np

    random = np.random.RandomState(seed)  # its stream is promised to stay the same

    def weights(rows: int, columns: int) -> Array:
        return random.standard_normal((rows, columns)) * math.sqrt(2 / columns)

    return Parameters(
        weights(hidden, PIXELS),
        np.zeros((hidden, 1)),
        weights(CLASSES, hidden),
        np.zeros((CLASSES, 1)),
    )


def forward(ops: Operations, p: Parameters, x: Array) -> Activations:
    """Equations (1) to (4)."""
    z1 = ops.product(p.w1, x)
    z1 = ops.add_bias(z1, p.b1)
    a1 = ops.relu(z1)
    z2 = ops.product(p.w2, a1)
    z2 = ops.add_bias(z2, p.b2)
    a2 = ops.softmax(z2)
    return Activations(z1, a1, z2, a2)


def backward(ops: Operations, p: Parameters, a: Activations, x: Array, y: Array) -> Parameters:
    """Equations (5) to (10): the gradients of the mean cross-entropy."""
    m = x.shape[1]
    dz2 = ops.error(a.a2, y)
    dw2 = ops.product_transposed(dz2, a.a1)
    da1 = ops.transposed_product(p.w2, dz2)
    dz1 = ops.through_relu(da1, a.z1)
    dw1 = ops.product_transposed(dz1, x)
    dw1 = ops.mean(dw1, m)
    dw2 = ops.mean(dw2, m)
    db1 = ops.mean_error(dz1, m)
    db2 = ops.mean_error(dz2, m)
    return Parameters(dw1, db1, dw2, db2)


def update(ops: Operations, parameters: Parameters, gradients: Parameters) -> Parameters:
    """The parameters after one step of gradient descent."""
    pairs = zip(parameters, gradients, strict=True)
    return Parameters(*(ops.descend(parameter, gradient, RATE) for parameter, gradient in pairs))


def iteration(ops: Operations, parameters: Parameters, images: Array, targets: Array) -> Parameters:
    """One iteration of full-batch gradient descent."""
    activations = forward(ops, parameters, images)
    return update(ops, parameters, backward(ops, parameters, activations, images, targets))


def loss(xp: Namespace, sums: Array, targets: Array) -> float:
    """Mean cross-entropy (nats a sample) of the softmax of ``sums``, against one-hot targets."""
    highest = xp.max(sums, axis=0, keepdims=True)
    logarithm = highest + xp.log(xp.sum(xp.exp(sums - highest), axis=0, keepdims=True))
    return float(xp.sum(targets * (logarithm - sums)) / sums.shape[1])


def accuracy(xp: Namespace, sums: Array, targets: Array) -> float:
    """The share of samples whose highest sum is that of their class, 0 to 1."""
    right = xp.argmax(sums, axis=0) == xp.argmax(targets, axis=0)
    return int(xp.sum(xp.astype(right, xp.int32))) / int(sums.shape[1])


def layers(hidden: int, samples: int, dtype: DType) -> tuple[Layer, ...]:
    """The layers of a forward pass, a row a sample as records hold them."""
    source, middle, scores = (samples, PIXELS), (samples, hidden), (samples, CLASSES)
    return (
        Linear(name="linear1", input_shape=source, output_shape=middle, dtype=dtype, bias=True),
        Activation(
            name="relu", input_shape=middle, output_shape=middle, dtype=dtype, function="relu"
        ),
        Linear(name="linear2", input_shape=middle, output_shape=scores, dtype=dtype, bias=True),
        Softmax(name="softmax", input_shape=scores, output_shape=scores, dtype=dtype, log=False),
    )
