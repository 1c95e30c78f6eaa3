"""Perceptron with one hidden layer, 784-h-10, by the equations of the source study.

Matrices have a row per feature and a column per sample; the images X have the shape ``(784, m)``,
the one-hot targets Y ``(10, m)``.  The network calls only methods of ``Operations``, so that
``timed_operations`` can wrap these methods and time every operation of an iteration.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from experiments.backends.libraries import Library, LibraryArray, Namespace
from experiments.harness.study import SEED
from report.core.records.layers import Activation, DType, Layer, Linear, Softmax
from report.core.records.record import Factors, SeriesByQuantity

if TYPE_CHECKING:
    from experiments.datasets import Split

PIXELS: Final = 784
CLASSES: Final = 10
#: Learning rate, as in the source study.
LEARNING_RATE: Final = 0.1

#: Method of ``Operations`` → quantity in records that includes its time.
QUANTITY_OF: Final = {
    "product": "matrix_product_time",
    "product_transposed": "matrix_product_time",
    "transposed_product": "matrix_product_time",
    "add_bias": "bias_time",
    "relu": "relu_time",
    "softmax": "softmax_time",
    "error": "gradient_time",
    "mean": "gradient_time",
    "mean_error": "gradient_time",
    "through_relu": "gradient_time",
    "descend": "update_time",
}


class Operations:
    """Operations of one array library; matrices have a column per sample."""

    def __init__(self, xp: Namespace) -> None:
        self.xp = xp
        self.product = xp.matmul
        self.add_bias = xp.add
        self.error = xp.subtract

    def product_transposed(self, left: LibraryArray, right: LibraryArray) -> LibraryArray:
        """Return left · rightᵀ."""
        return self.xp.tensordot(left, right, axes=((1,), (1,)))

    def transposed_product(self, left: LibraryArray, right: LibraryArray) -> LibraryArray:
        """Return leftᵀ · right."""
        return self.xp.tensordot(left, right, axes=((0,), (0,)))

    def relu(self, sums: LibraryArray) -> LibraryArray:
        """Return ``max(0, sums)``, element by element, in one operation of the library."""
        # For the standard's clip, array-api-compat calls several operations of CuPy or PyTorch.
        relu = getattr(self.xp, "relu", None)
        return relu(sums) if relu else self.xp.maximum(sums, 0)

    def softmax(self, sums: LibraryArray) -> LibraryArray:
        """Return each column's softmax; subtracting the maximum prevents overflow."""
        powers = self.xp.exp(sums - self.xp.max(sums, axis=0, keepdims=True))
        return powers / self.xp.sum(powers, axis=0, keepdims=True)

    def mean(self, product: LibraryArray, samples: int) -> LibraryArray:
        """Divide a sum over the samples by the number of samples."""
        return product * (1 / samples)

    def mean_error(self, error: LibraryArray, samples: int) -> LibraryArray:
        """Return the mean of each row over the samples, ``(rows, 1)``."""
        return self.xp.sum(error, axis=1, keepdims=True) * (1 / samples)

    def through_relu(self, gradient: LibraryArray, sums: LibraryArray) -> LibraryArray:
        """Return the gradient where the sums are above 0, else 0."""
        return gradient * self.xp.astype(sums > 0, gradient.dtype)

    def descend(self, parameter: LibraryArray, gradient: LibraryArray, rate: float) -> LibraryArray:
        """Return a parameter after a step against its gradient."""
        return parameter - rate * gradient


def timed_operations(
    xp: Namespace,
    wait: Callable[[LibraryArray], object],
    now: Callable[[], float],
    report: Callable[[str, float], None],
) -> Operations:
    """Return operations that wait for their results, and pass quantity and duration to ``report``.

    ``wait`` returns after an array is computed; durations are differences of the clock ``now``.
    """

    def with_timer(
        quantity: str, operation: Callable[..., LibraryArray]
    ) -> Callable[..., LibraryArray]:
        def call(*arguments: Any) -> LibraryArray:
            start = now()
            result = operation(*arguments)
            wait(result)
            report(quantity, now() - start)
            return result

        return call

    ops = Operations(xp)
    for name, quantity in QUANTITY_OF.items():
        setattr(ops, name, with_timer(quantity, getattr(ops, name)))
    return ops


class Parameters(NamedTuple):
    """Weights and biases of two layers, or their gradients; a bias has one column."""

    w1: LibraryArray
    b1: LibraryArray
    w2: LibraryArray
    b2: LibraryArray


class Activations(NamedTuple):
    """Weighted sums (z) and activations (a) of layers 1 and 2."""

    z1: LibraryArray
    a1: LibraryArray
    z2: LibraryArray
    a2: LibraryArray


def initial_parameters(hidden: int, seed: int) -> Parameters:
    """Draw weights from ``seed``, and set biases to 0, as float64 arrays of NumPy.

    Weights are normal with variance 2 / (number of inputs) (He et al., ICCV 2015, equation 10).
    """
    import numpy as np

    random = np.random.RandomState(seed)  # NumPy guarantees the same numbers in all versions

    def weights(rows: int, columns: int) -> LibraryArray:
        return random.standard_normal((rows, columns)) * math.sqrt(2 / columns)

    return Parameters(
        weights(hidden, PIXELS),
        np.zeros((hidden, 1)),
        weights(CLASSES, hidden),
        np.zeros((CLASSES, 1)),
    )


def forward(ops: Operations, p: Parameters, x: LibraryArray) -> Activations:
    """Compute the forward pass, which is equations (1) to (4) of the source study."""
    z1 = ops.product(p.w1, x)
    z1 = ops.add_bias(z1, p.b1)
    a1 = ops.relu(z1)
    z2 = ops.product(p.w2, a1)
    z2 = ops.add_bias(z2, p.b2)
    a2 = ops.softmax(z2)
    return Activations(z1, a1, z2, a2)


def backward(
    ops: Operations, p: Parameters, a: Activations, x: LibraryArray, y: LibraryArray
) -> Parameters:
    """Compute the gradients of the mean cross-entropy: the source study's equations (5) to (10)."""
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
    """Return the parameters after one step of gradient descent."""
    pairs = zip(parameters, gradients, strict=True)
    return Parameters(*(ops.descend(*pair, LEARNING_RATE) for pair in pairs))


def iteration(
    ops: Operations,
    parameters: Parameters,
    images: LibraryArray,
    targets: LibraryArray,
    forward: Callable[[Operations, Parameters, LibraryArray], Activations] = forward,
) -> Parameters:
    """Compute one iteration of full-batch gradient descent."""
    activations = forward(ops, parameters, images)
    return update(ops, parameters, backward(ops, parameters, activations, images, targets))


def loss(xp: Namespace, sums: LibraryArray, targets: LibraryArray) -> float:
    """Return the mean cross-entropy (nats per sample) of softmax(sums) and one-hot targets."""
    highest = xp.max(sums, axis=0, keepdims=True)
    logarithm = highest + xp.log(xp.sum(xp.exp(sums - highest), axis=0, keepdims=True))
    return float(xp.sum(targets * (logarithm - sums)) / sums.shape[1])


def accuracy(xp: Namespace, sums: LibraryArray, targets: LibraryArray) -> float:
    """Return the share (0 to 1) of samples whose largest sum belongs to the right class."""
    right = xp.argmax(sums, axis=0) == xp.argmax(targets, axis=0)
    return int(xp.sum(xp.astype(right, xp.int32))) / int(sums.shape[1])


def layers(hidden: int, samples: int, dtype: DType) -> tuple[Layer, ...]:
    """Describe the layers of a forward pass for records, where matrices have a row per sample."""
    source, middle, scores = (samples, PIXELS), (samples, hidden), (samples, CLASSES)
    return (
        Linear(name="linear1", input_shape=source, output_shape=middle, dtype=dtype, bias=True),
        Activation(
            name="relu", input_shape=middle, output_shape=middle, dtype=dtype, function="relu"
        ),
        Linear(name="linear2", input_shape=middle, output_shape=scores, dtype=dtype, bias=True),
        Softmax(name="softmax", input_shape=scores, output_shape=scores, dtype=dtype, log=False),
    )


class Batch(NamedTuple):
    """Images ``(784, m)`` in [0, 1] and one-hot targets ``(10, m)``."""

    images: LibraryArray
    targets: LibraryArray


class Training(NamedTuple):
    """Training data and initial parameters, with the same values in every library."""

    library: Library
    dtype: str
    train: Batch
    parameters: Parameters
    forward: Callable[[Operations, Parameters, LibraryArray], Activations] = forward

    @property
    def ops(self) -> Operations:
        return Operations(self.library.xp)

    def iterate(self, parameters: Parameters) -> Parameters:
        """Compute one iteration and wait for its end."""
        result = iteration(self.ops, parameters, *self.train, self.forward)
        return self.library.wait(result)  # type: ignore[no-any-return]


def batch_on_device(
    library: Library, dtype: str, split: Split, samples: int | None = None
) -> Batch:
    """Copy pixels, divided by 255, and one-hot labels to the device of a library.

    Copies all images by default.  If there are fewer images than ``samples``, images are repeated.
    """
    import numpy as np

    float_type, count = np.dtype(dtype), len(split.labels)
    chosen = np.arange(samples or count) % count
    pixels, labels = split.pixels[chosen].reshape(len(chosen), -1), split.labels[chosen]
    columns = np.ascontiguousarray(pixels.T, dtype=float_type) / float_type.type(255)
    targets = np.eye(CLASSES, dtype=float_type)[:, labels]
    return Batch(library.copy_to_device(columns, dtype), library.copy_to_device(targets, dtype))


def training_of(library: Library, factors: Factors, train: Split) -> Training:
    """Build the training of a case, with all arrays on the device."""
    dtype = str(factors["dtype"])
    initial = initial_parameters(int(factors["hidden"]), SEED)
    parameters = Parameters(*(library.copy_to_device(value, dtype) for value in initial))
    batch = batch_on_device(library, dtype, train, int(factors["samples"]))
    return Training(library, dtype, batch, parameters)


def learning_curve(training: Training, test: Split, count: int) -> SeriesByQuantity:
    """Compute loss (nats per sample) and accuracy before and after each of ``count`` iterations."""
    test_batch = batch_on_device(training.library, training.dtype, test)
    batches = {"train": training.train, "test": test_batch}
    parameters, xp = training.parameters, training.library.xp
    series = defaultdict[str, list[float]](list)
    for iterations in range(count + 1):
        if iterations:
            parameters = training.iterate(parameters)
        for name, batch in batches.items():
            logits = forward(training.ops, parameters, batch.images).z2
            series[f"{name}_loss"].append(loss(xp, logits, batch.targets))
            series[f"{name}_accuracy"].append(accuracy(xp, logits, batch.targets))
    return {name: tuple(samples) for name, samples in series.items()}
