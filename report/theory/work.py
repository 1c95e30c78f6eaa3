"""The multiply-adds of a layer by pass, the bytes of its tensors, and its compulsory traffic.

Theory is computed here, from the geometry that a record holds, when a paper is built.  A
multiply-add is one MAC and two FLOPs; the two are different types and meet only in ``flops``.

A dot product of m terms is m MACs: the accumulator starts at zero, as in a fused multiply-add.
A convolution counts every position of its kernel, those over the padding too, as the published
figures do; ``valid_tap_macs`` leaves the padding out.

Every size is in bytes, computed from shapes and element types; what an allocator rounds up or an
algorithm takes as workspace is measured, never assumed here.

Letters in formulas are those of ``report.theory.shapes``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import starmap
from typing import Final, Literal, NewType, TypeAlias, get_args

from report.core.records.layers import (
    ELEMENT_BYTES,
    Activation,
    Addition,
    BatchNorm,
    Convolution,
    Dropout,
    Flatten,
    Layer,
    Linear,
    PaddedShortcut,
    Pooling,
    Softmax,
)
from report.theory.shapes import elements, parameter_count, weight_count

Macs = NewType("Macs", int)
Flops = NewType("Flops", int)
LayerPass: TypeAlias = Literal["forward", "weight_gradient", "input_gradient"]
#: All passes of a layer, the forward one first.
PASSES: Final[tuple[LayerPass, ...]] = get_args(LayerPass)


def flops(macs: Macs) -> Flops:
    """Convert multiply-adds to floating-point operations: two each, one × and one +."""
    return Flops(2 * macs)


def macs(layer: Layer, pass_: LayerPass = "forward") -> Macs:
    """Return the multiply-adds of one pass of a convolution or linear layer; 0 for other layers.

    A convolution does ``N · H_out · W_out · C_out · C_in/G · K_h · K_w``, a transposed one the
    same with its input's extents (it is the input gradient of a convolution), a linear layer
    rows × features in × features out.  Every product of the forward pass has one counterpart in
    the weight gradient (input × output gradient) and one in the input gradient (weight × output
    gradient), so that the three passes are equal.  The optimiser's update is not counted.
    """
    match layer:
        case Convolution():
            positions = layer.input_shape if layer.transposed else layer.output_shape
            sites = positions[0] * elements(positions[2:])
            return Macs(sites * weight_count(layer))
        case Linear():
            return Macs(elements(layer.input_shape[:-1]) * weight_count(layer))
        case _:
            return Macs(0)


def valid_tap_macs(layer: Layer) -> Macs:
    """Return the forward multiply-adds that touch data, without taps over the padding.

    For a transposed convolution these are the taps whose result lies inside the output; the others
    are cropped.  Each gradient has the same number of products.
    """
    if not isinstance(layer, Convolution):
        return macs(layer)
    extents = layer.input_shape[2:], layer.output_shape[2:]
    windows = layer.kernel, layer.stride, layer.padding, layer.dilation
    return Macs(int(macs(layer) * share_of_data(*extents, *windows, transposed=layer.transposed)))


def share_of_data(
    source: Sequence[int], result: Sequence[int], *windows: Sequence[int], transposed: bool
) -> Fraction:
    """Return the share of a convolution's taps that lie inside the input.

    ``windows`` are kernel, stride, padding and dilation along each extent.
    """
    # Every output position has a window on the input; transposed, every input position on the
    # output.
    positions, extents = (source, result) if transposed else (result, source)
    pairs = math.prod(starmap(_pairs, zip(positions, extents, *windows, strict=True)))
    return Fraction(pairs, math.prod(positions) * math.prod(windows[0]))


def _pairs(positions: int, size: int, kernel: int, stride: int, padding: int, step: int) -> int:
    """Count pairs (position o, tap k) along one axis with ``0 <= oS - P + kD < size``."""
    total = 0
    for tap in range(kernel):
        offset = tap * step - padding
        first = max(0, -(offset // stride))
        last = min(positions - 1, (size - 1 - offset) // stride)
        total += max(0, last - first + 1)
    return total


def forward_macs(layers: Iterable[Layer]) -> Macs:
    """Return the multiply-adds of one forward pass through ``layers``."""
    return Macs(sum(macs(layer) for layer in layers))


def training_macs(layers: Iterable[Layer]) -> Macs:
    """Return the multiply-adds of one training step, slightly less than three forward passes."""
    chain = tuple(layers)
    passes = zip(chain, training_passes(chain), strict=True)
    return Macs(sum(macs(layer, pass_) for layer, needed in passes for pass_ in needed))


def training_passes(layers: Sequence[Layer]) -> tuple[tuple[LayerPass, ...], ...]:
    """Return the passes of each layer in a training step.

    No input gradient is needed up to the first layer with parameters: nothing before is trained.
    """
    first = next((i for i, layer in enumerate(layers) if parameter_count(layer)), len(layers))
    return tuple(PASSES if number > first else PASSES[:2] for number in range(len(layers)))


# ------------------------------------------------------------------------------------------ bytes


def element_bytes(layer: Layer) -> int:
    """Return the bytes of one element of the layer's tensors."""
    return ELEMENT_BYTES[layer.dtype]


def input_bytes(layer: Layer) -> int:
    """Return the bytes of one input tensor (an addition reads two)."""
    return elements(layer.input_shape) * element_bytes(layer)


def output_bytes(layer: Layer) -> int:
    """Return the bytes of the output tensor."""
    return elements(layer.output_shape) * element_bytes(layer)


def parameter_bytes(layer: Layer) -> int:
    """Return the bytes of weights and biases, independent of the batch size."""
    return parameter_count(layer) * element_bytes(layer)


def compulsory_traffic(layer: Layer, pass_: LayerPass = "forward") -> int:
    """Return the bytes that a pass moves if every tensor crosses the memory bus exactly once.

    This is the traffic of compulsory cache misses (Hill and Smith 1989), a lower bound for a layer
    that runs alone; fused layers may need less.  Dropout is that of training.

    - Forward: parameters and input (for an addition, both) read, output written; a flatten is a
      view and moves nothing; a padded shortcut reads only the elements that it keeps.
    - Weight gradient: input and output gradient read, parameter gradient written; 0 without
      parameters.
    - Input gradient: output gradient, weights and saved tensors read, input gradient written.
      Batch norm, activations and maximum pooling save their input, softmax its output, dropout a
      mask of one byte per element.  The gradient of an addition is the output gradient itself and
      moves nothing.
    """
    if isinstance(layer, Flatten):
        return 0
    parameters, inputs, outputs = (of(layer) for of in (parameter_bytes, input_bytes, output_bytes))
    if pass_ == "forward":
        return parameters + _read_bytes(layer) + outputs
    if pass_ == "weight_gradient":
        return parameters + inputs + outputs if parameters else 0
    if isinstance(layer, Addition):
        return 0
    if isinstance(layer, PaddedShortcut):
        return _read_bytes(layer) + inputs
    weights = weight_count(layer) * element_bytes(layer)
    return outputs + weights + _saved_bytes(layer) + inputs


def _read_bytes(layer: Layer) -> int:
    """Return the bytes of inputs that a forward pass reads."""
    match layer:
        case Addition():
            return 2 * input_bytes(layer)
        case PaddedShortcut():
            read = (*layer.input_shape[:2], *layer.output_shape[2:])
            return elements(read) * element_bytes(layer)
        case _:
            return input_bytes(layer)


def _saved_bytes(layer: Layer) -> int:
    """Return the bytes that the forward pass saves for the input gradient."""
    match layer:
        case BatchNorm() | Activation():
            return input_bytes(layer)
        case Pooling() if layer.mode == "max":
            return input_bytes(layer)
        case Softmax():
            return output_bytes(layer)
        case Dropout():
            return elements(layer.input_shape)
        case _:
            return 0
