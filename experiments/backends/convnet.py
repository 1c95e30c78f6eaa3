"""A small convolutional network: one convolution, ReLU, maximum pooling, a linear layer, softmax.

The convolution is a matrix product over unfolded windows (im2col; Chellapilla et al., IWFHR 2006).
Maps are ``(channels, height, width, samples)``: the samples come last, as in the perceptron.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from experiments.backends.learning import CLASSES, Network, Parameters, he_weights
from experiments.backends.operations import Array, Operations
from report.records.layers import (
    Activation,
    Convolution,
    DType,
    Flatten,
    Layer,
    Linear,
    Pooling,
    Softmax,
)

SIDE: Final = 28
CHANNELS: Final = 8
KERNEL: Final = 3
MAP: Final = SIDE - KERNEL + 1
POOLED: Final = MAP // 2
FEATURES: Final = CHANNELS * POOLED**2
#: At the perceptron's rate the loss jumps up and down.
RATE: Final = 0.02


class Activations(NamedTuple):
    """The unfolded images, the maps before and after ReLU, the pooled ones, sums, probabilities.

    ``columns`` is ``(9, 676 m)``, ``z1`` ``(8, 676 m)``, ``a1`` ``(8, 26, 26, m)``, ``pooled``
    ``(8, 13, 13, m)``, ``z2`` and ``a2`` ``(10, m)``.
    """

    columns: Array
    z1: Array
    a1: Array
    pooled: Array
    z2: Array
    a2: Array


def network() -> Network:
    """The network."""
    return Network(initial, forward, backward, RATE)


def initial(seed: int) -> Parameters:
    """Weights drawn from ``seed``, biases of 0, as float64 arrays of NumPy."""
    import numpy as np

    random = np.random.RandomState(seed)
    return Parameters(
        he_weights(random, CHANNELS, KERNEL**2),
        np.zeros((CHANNELS, 1)),
        he_weights(random, CLASSES, FEATURES),
        np.zeros((CLASSES, 1)),
    )


def forward(ops: Operations, parameters: Parameters, images: Array) -> Activations:
    """From images ``(784, m)`` to probabilities ``(10, m)``."""
    w1, b1, w2, b2 = parameters
    samples = images.shape[1]
    columns = ops.unfold(ops.reshape(images, (SIDE, SIDE, samples)), KERNEL)
    z1 = ops.add_bias(ops.product(w1, columns), b1)
    a1 = ops.reshape(ops.relu(z1), (CHANNELS, MAP, MAP, samples))
    pooled = ops.pool(a1)
    features = ops.reshape(pooled, (FEATURES, samples))
    z2 = ops.add_bias(ops.product(w2, features), b2)
    return Activations(columns, z1, a1, pooled, z2, ops.softmax(z2))


def backward(
    ops: Operations, parameters: Parameters, activations: Activations, images: Array, targets: Array
) -> Parameters:
    """The gradients of the mean cross-entropy."""
    samples = images.shape[1]
    columns, z1, a1, pooled, _, a2 = activations
    dz2 = ops.error(a2, targets)
    features = ops.reshape(pooled, (FEATURES, samples))
    dw2 = ops.mean(ops.product_transposed(dz2, features), samples)
    db2 = ops.mean_error(dz2, samples)
    dpooled = ops.reshape(ops.transposed_product(parameters.w2, dz2), pooled.shape)
    da1 = ops.reshape(ops.unpool(dpooled, pooled, a1), z1.shape)
    dz1 = ops.through_relu(da1, z1)
    dw1 = ops.mean(ops.product_transposed(dz1, columns), samples)
    return Parameters(dw1, ops.mean_error(dz1, samples), dw2, db2)


def layers(samples: int, dtype: DType) -> tuple[Layer, ...]:
    """The layers of a forward pass, images first as records hold them."""
    images, maps = (samples, 1, SIDE, SIDE), (samples, CHANNELS, MAP, MAP)
    pooled, scores = (samples, CHANNELS, POOLED, POOLED), (samples, CLASSES)
    flat = (samples, FEATURES)
    return (
        Convolution(
            name="conv",
            input_shape=images,
            output_shape=maps,
            dtype=dtype,
            kernel=(KERNEL, KERNEL),
            stride=(1, 1),
            padding=(0, 0),
            dilation=(1, 1),
            groups=1,
            bias=True,
            transposed=False,
        ),
        Activation(name="relu", input_shape=maps, output_shape=maps, dtype=dtype, function="relu"),
        Pooling(
            name="pool",
            input_shape=maps,
            output_shape=pooled,
            dtype=dtype,
            mode="max",
            kernel=(2, 2),
            stride=(2, 2),
            padding=(0, 0),
        ),
        Flatten(name="flatten", input_shape=pooled, output_shape=flat, dtype=dtype),
        Linear(name="linear", input_shape=flat, output_shape=scores, dtype=dtype, bias=True),
        Softmax(name="softmax", input_shape=scores, output_shape=scores, dtype=dtype, log=False),
    )
