"""The perceptron with one hidden layer, 784-h-10, by the equations of the source study.

Matrices have a row a feature and a column a sample; X is ``(784, m)``, Y one-hot ``(10, m)``.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from experiments.backends.learning import CLASSES, Network, Parameters, he_weights
from experiments.backends.operations import Array, Operations
from report.records.layers import Activation, DType, Layer, Linear, Softmax

PIXELS: Final = 784
#: Of the source study.
RATE: Final = 0.1


class Activations(NamedTuple):
    """Sums and activations of both layers."""

    z1: Array
    a1: Array
    z2: Array
    a2: Array


def network(hidden: int) -> Network:
    """The network with ``hidden`` neurons in its hidden layer."""
    return Network(partial(initial, hidden), forward, backward, RATE)


def initial(hidden: int, seed: int) -> Parameters:
    """Weights drawn from ``seed``, biases of 0, as float64 arrays of NumPy."""
    import numpy as np

    random = np.random.RandomState(seed)  # its stream is promised to stay the same
    return Parameters(
        he_weights(random, hidden, PIXELS),
        np.zeros((hidden, 1)),
        he_weights(random, CLASSES, hidden),
        np.zeros((CLASSES, 1)),
    )


def forward(ops: Operations, parameters: Parameters, images: Array) -> Activations:
    """Equations (1) to (4)."""
    w1, b1, w2, b2 = parameters
    z1 = ops.add_bias(ops.product(w1, images), b1)
    a1 = ops.relu(z1)
    z2 = ops.add_bias(ops.product(w2, a1), b2)
    return Activations(z1, a1, z2, ops.softmax(z2))


def backward(
    ops: Operations, parameters: Parameters, activations: Activations, images: Array, targets: Array
) -> Parameters:
    """Equations (5) to (10): the gradients of the mean cross-entropy."""
    samples = images.shape[1]
    dz2 = ops.error(activations.a2, targets)
    dw2 = ops.mean(ops.product_transposed(dz2, activations.a1), samples)
    db2 = ops.mean_error(dz2, samples)
    dz1 = ops.through_relu(ops.transposed_product(parameters.w2, dz2), activations.z1)
    dw1 = ops.mean(ops.product_transposed(dz1, images), samples)
    return Parameters(dw1, ops.mean_error(dz1, samples), dw2, db2)


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
