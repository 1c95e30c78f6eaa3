"""The multiply-adds of a layer, by pass.

Theory is computed here, from the geometry that a record holds, when a paper is built.  A
multiply-add is one MAC and two FLOPs; the two are different types and meet only in ``flops``.

A dot product of m terms is m MACs: the accumulator starts at zero, as in a fused multiply-add.
A convolution counts every position of its kernel, those over the padding too, as the published
figures do; ``valid_tap_macs`` leaves the padding out.

Letters in formulas are those of ``report.theory.shapes``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NewType, TypeAlias, get_args

from report.records.layers import Convolution, Layer, Linear
from report.theory.shapes import Axis, axes, elements, parameter_count, weight_count

Macs = NewType("Macs", int)
Flops = NewType("Flops", int)
Pass: TypeAlias = Literal["forward", "weight_gradient", "input_gradient"]
#: All passes of a layer, the forward one first.
PASSES: Final[tuple[Pass, ...]] = get_args(Pass)


def flops(macs: Macs) -> Flops:
    """The floating-point operations of ``macs`` multiply-adds: two each, one × and one +."""
    return Flops(2 * macs)


def macs(layer: Layer, pass_: Pass = "forward") -> Macs:
    """The multiply-adds of one pass of a convolution or a linear layer; 0 for other layers.

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
    """The forward multiply-adds that touch data: taps over the padding are left out, exactly.

    For a transposed convolution they are the taps whose result lies inside the output, and the
    rest is cropped.  The same number of products remains in each gradient.
    """
    if not isinstance(layer, Convolution):
        return macs(layer)
    # Windows stand on the output and look at the input; transposed, the other way round.
    positions, seen = layer.output_shape, layer.input_shape
    if layer.transposed:
        positions, seen = seen, positions
    windows = (axis._replace(size=size) for axis, size in zip(axes(layer), seen[2:], strict=True))
    pairs = math.prod(map(valid_pairs, positions[2:], windows))
    return Macs(positions[0] * pairs * weight_count(layer) // elements(layer.kernel))


def valid_pairs(positions: int, axis: Axis) -> int:
    """Pairs (position o, tap k) along one axis with ``0 <= oS - P + kD < size``."""
    total = 0
    for tap in range(axis.kernel):
        offset = tap * axis.dilation - axis.padding
        first = max(0, -(offset // axis.stride))
        last = min(positions - 1, (axis.size - 1 - offset) // axis.stride)
        total += max(0, last - first + 1)
    return total


def forward_macs(layers: Iterable[Layer]) -> Macs:
    """The multiply-adds of one forward pass through ``layers``."""
    return Macs(sum(macs(layer) for layer in layers))


def training_macs(layers: Iterable[Layer]) -> Macs:
    """The multiply-adds of one training step, a little less than three forward passes."""
    chain = tuple(layers)
    passes = zip(chain, training_passes(chain), strict=True)
    return Macs(sum(macs(layer, each) for layer, made in passes for each in made))


def training_passes(layers: Sequence[Layer]) -> tuple[tuple[Pass, ...], ...]:
    """The passes that each layer makes in a training step.

    Up to the first layer with parameters no input gradient is needed: nothing before it is trained.
    """
    first = next((i for i, layer in enumerate(layers) if parameter_count(layer)), len(layers))
    return tuple(PASSES if number > first else PASSES[:2] for number in range(len(layers)))
