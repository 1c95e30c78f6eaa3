"""What a training step must hold, by category, from the layers' shapes: float32, eager PyTorch.

Between steps parameters, running statistics, gradients, momentum and the batch are alive.  A step
drops the gradients first; its forward pass then keeps what the backward pass will read.  Which
tensors those are follows from the derivatives that PyTorch defines (``derivatives.yaml``): a
convolution, a linear layer, a batch normalisation and a maximum pooling keep their input, a ReLU
its output, maximum pooling the place of each maximum, batch normalisation two numbers a channel,
dropout its mask, the loss the logarithm of the probabilities and two numbers.  The derivative of a
ReLU6 is defined on its input, so that one that works in place keeps a copy of what it writes over.
A tensor that several layers keep is kept once.  Workspaces and copies in other layouts belong to
the algorithms and are not theory: they are the residual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from report.records.layers import (
    ELEMENT_BYTES,
    Activation,
    BatchNorm,
    Convolution,
    Dropout,
    Flatten,
    Layer,
    Linear,
    Pooling,
)
from report.theory.dataflow import NETWORK_INPUT, sources
from report.theory.memory import input_bytes, output_bytes, parameter_bytes
from report.theory.shapes import elements

_FLOAT: Final = ELEMENT_BYTES["float32"]
_LONG: Final = ELEMENT_BYTES["int64"]
#: Activations that write over their input.
_IN_PLACE: Final = frozenset({"relu", "relu6"})
#: The loss itself and the sum of the classes' weights by which it was divided.
_LOSS_BYTES: Final = 2 * _FLOAT


@dataclass(frozen=True)
class Categories:
    """Bytes by category; ``kept`` is what a forward pass keeps for the backward pass."""

    parameters: int
    statistics: int
    gradients: int
    momentum: int
    batch: int
    kept: int

    @property
    def between_steps(self) -> int:
        """What is alive before a step that is not the first."""
        return self.parameters + self.statistics + self.gradients + self.momentum + self.batch

    @property
    def before_backward(self) -> int:
        """What is alive when the forward pass has ended: all but the gradients, and what is kept.

        With the activations this is what no step in eager mode can do without.
        """
        return self.between_steps - self.gradients + self.kept


def categories(layers: Sequence[Layer], *, on_host: bool = True) -> Categories:
    """The categories of a step of SGD with momentum on these layers.

    ``on_host`` says that the step runs on a CPU, where a dropout keeps its mask in float32 and not
    in bytes.  Raises ``StudyError`` for layers whose names do not tell which reads which.
    """
    parameters = sum(map(parameter_bytes, layers))
    labels = layers[0].input_shape[0] * _LONG if layers else 0
    return Categories(
        parameters,
        sum(map(_statistics_bytes, layers)),
        parameters,
        parameters,
        (input_bytes(layers[0]) if layers else 0) + labels,
        kept_bytes(layers, on_host=on_host),
    )


def _statistics_bytes(layer: Layer) -> int:
    """Running mean and variance of each channel, and the count of batches."""
    return 2 * _FLOAT * layer.input_shape[1] + _LONG if isinstance(layer, BatchNorm) else 0


def kept_bytes(layers: Sequence[Layer], *, on_host: bool = True) -> int:
    """Bytes that the forward pass and the loss keep for the backward pass.

    The network's input is not among them: it is held as the batch.
    """
    if not layers:
        return 0
    read = sources(layers)
    homes = _homes(layers, read)
    kept = {home for home in _kept_homes(layers, read, homes) if home != NETWORK_INPUT}
    tensors = sum(output_bytes(layers[home]) for home in kept)
    extras = sum(_extra_bytes(layer, on_host) for layer in layers)
    return tensors + extras + output_bytes(layers[-1]) + _LOSS_BYTES


def _homes(layers: Sequence[Layer], read: Sequence[tuple[int, ...]]) -> list[int]:
    """For each layer's output the layer that allocated its storage: views and in-place ones none.

    Where the input's storage is the network's input, it is ``NETWORK_INPUT``.
    """
    homes: list[int] = []
    for number, layer in enumerate(layers):
        shares = isinstance(layer, Flatten) or (
            isinstance(layer, Activation) and layer.function in _IN_PLACE
        )
        homes.append(_home(read[number][0], homes) if shares else number)
    return homes


def _home(source: int, homes: Sequence[int]) -> int:
    return NETWORK_INPUT if source == NETWORK_INPUT else homes[source]


def _kept_homes(
    layers: Sequence[Layer], read: Sequence[tuple[int, ...]], homes: Sequence[int]
) -> Iterator[int]:
    for number, layer in enumerate(layers):
        match layer:
            case Convolution() | Linear() | BatchNorm():
                yield _home(read[number][0], homes)
            case Pooling() if layer.mode == "max":
                yield _home(read[number][0], homes)
            case Activation() if layer.function != "relu6":
                yield homes[number]


def _extra_bytes(layer: Layer, on_host: bool) -> int:
    """What a layer keeps beside tensors that were there: a copy, indices, a mask, statistics."""
    match layer:
        case Activation() if layer.function == "relu6":
            return output_bytes(layer)
        case Pooling() if layer.mode == "max":
            return _LONG * elements(layer.output_shape)
        case BatchNorm():
            return 2 * _FLOAT * layer.input_shape[1]
        case Dropout():
            return elements(layer.input_shape) * (_FLOAT if on_host else 1)
        case _:
            return 0
