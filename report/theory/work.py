"""What a layer has to compute: multiply-adds, and every operation that is none.

Theory is computed here, from the geometry that a record holds, when a paper is built.  A
multiply-add is one MAC and two FLOPs; the two are different types and meet only in ``flops``.

Conventions, the same for every layer:

- A dot product of m terms is m MACs: the accumulator starts at zero, as in a fused multiply-add.
- A sum of m terms without products is m - 1 additions, a maximum of m values m - 1 comparisons.
- A subtraction is an addition; a change of sign is free; a division, square root, exponential,
  logarithm, hyperbolic tangent or error function is one special operation.
- Convolution and pooling count every position of the kernel, those over the padding too, as the
  published figures do; ``valid_tap_macs`` leaves the padding out.

Letters in formulas are those of ``report.theory.shapes``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NewType, TypeAlias, get_args

from report.records.layers import (
    Activation,
    Addition,
    BatchNorm,
    Convolution,
    Dropout,
    Layer,
    Linear,
    Pooling,
    Softmax,
)
from report.theory.shapes import Axis, axes, bias_count, elements, parameter_count, weight_count

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
    pairs = math.prod(map(_valid_pairs, positions[2:], windows))
    return Macs(positions[0] * pairs * weight_count(layer) // elements(layer.kernel))


def _valid_pairs(positions: int, axis: Axis) -> int:
    """Pairs (position o, tap k) along one axis with ``0 <= oS - P + kD < size``."""
    offsets = (tap * axis.dilation - axis.padding for tap in range(axis.kernel))
    return sum(
        max(0, _last(axis, offset, positions) - max(0, -(offset // axis.stride)) + 1)
        for offset in offsets
    )


def _last(axis: Axis, offset: int, positions: int) -> int:
    return min(positions - 1, (axis.size - 1 - offset) // axis.stride)


def forward_macs(layers: Iterable[Layer]) -> Macs:
    """The multiply-adds of one forward pass through ``layers``."""
    return Macs(sum(macs(layer) for layer in layers))


def training_macs(layers: Iterable[Layer]) -> Macs:
    """The multiply-adds of one training step: forward, weight gradient and input gradient.

    The first layer with parameters needs no input gradient: nothing before it is trained.  This
    is why a step is a little less than three forward passes.
    """
    chain = tuple(layers)
    first = next((i for i, layer in enumerate(chain) if parameter_count(layer)), None)
    forward = forward_macs(chain)
    weights = sum(macs(layer, "weight_gradient") for layer in chain)
    inputs = sum(macs(layer, "input_gradient") for i, layer in enumerate(chain) if i != first)
    return Macs(forward + weights + inputs)


@dataclass(frozen=True)
class Work:
    """The operations of one pass, by kind; ``special`` are those dearer than a multiplication."""

    macs: Macs = Macs(0)
    additions: int = 0
    multiplications: int = 0
    comparisons: int = 0
    special: int = 0

    @property
    def flops(self) -> Flops:
        """The conventional figure: two a multiply-add, and nothing else."""
        return flops(self.macs)

    @property
    def arithmetic(self) -> int:
        """Every operation, a multiply-add as two."""
        others = self.additions + self.multiplications + self.comparisons + self.special
        return self.flops + others

    def __add__(self, other: Work) -> Work:
        return Work(
            Macs(self.macs + other.macs),
            self.additions + other.additions,
            self.multiplications + other.multiplications,
            self.comparisons + other.comparisons,
            self.special + other.special,
        )

    def times(self, count: int) -> Work:
        """The work of ``count`` repetitions."""
        return Work(
            Macs(self.macs * count),
            self.additions * count,
            self.multiplications * count,
            self.comparisons * count,
            self.special * count,
        )


NO_WORK: Final = Work()


def work(layer: Layer, pass_: Pass = "forward", *, training: bool = False) -> Work:
    """All operations of one pass.

    ``training`` concerns the forward pass of batch norm (statistics of the batch instead of
    stored ones) and of dropout (which does nothing in inference); gradients imply it.  A flatten
    does no work in any pass, nor has a layer without parameters a weight gradient.
    """
    result = NO_WORK
    match layer:
        case Convolution() | Linear():
            result = _product_work(layer, pass_)
        case BatchNorm():
            result = _batch_norm_work(layer, pass_, training)
        case Pooling():
            result = _pooling_work(layer, pass_)
        case Activation() if pass_ != "weight_gradient":
            once = _ACTIVATIONS[layer.function][pass_ == "input_gradient"]
            result = once.times(elements(layer.output_shape))
        case Softmax() if pass_ != "weight_gradient":
            result = _softmax_work(layer, pass_)
        case Addition() if pass_ == "forward":
            # Its gradient is a copy; where branches fork, the sum belongs to no layer.
            result = Work(additions=elements(layer.output_shape))
        case Dropout():
            result = _dropout_work(layer, pass_, training)
    return result


def _product_work(layer: Convolution | Linear, pass_: Pass) -> Work:
    """Convolution, linear: the MACs and, with a bias, what adds it.

    Forward: one addition an output element.  Weight gradient: the bias gradient of a channel is
    the sum of the output gradient over all its positions, outputs - C_out additions in all.
    """
    multiply_adds = macs(layer, pass_)
    if not layer.bias or pass_ == "input_gradient":
        return Work(multiply_adds)
    outputs = elements(layer.output_shape)
    return Work(
        multiply_adds, additions=outputs if pass_ == "forward" else outputs - bias_count(layer)
    )


def _pooling_work(layer: Pooling, pass_: Pass) -> Work:
    """Windows of k positions: maximum k - 1 comparisons; average k - 1 additions, 1 division.

    The input gradient adds each output gradient to the one input that won (1 addition), or a
    k-th of it (1 division) to all k of the window (k additions), to sums that start at zero.
    """
    outputs, window = elements(layer.output_shape), elements(layer.kernel)
    match layer.mode, pass_:
        case "max", "forward":
            return Work(comparisons=outputs * (window - 1))
        case "max", "input_gradient":
            return Work(additions=outputs)
        case "average", "forward":
            return Work(additions=outputs * (window - 1), special=outputs)
        case "average", "input_gradient":
            return Work(additions=outputs * window, special=outputs)
        case _:
            return NO_WORK


def _batch_norm_work(layer: BatchNorm, pass_: Pass, training: bool) -> Work:
    """Batch normalisation (Ioffe and Szegedy, arXiv:1502.03167, algorithms 1 and 2).

    n elements, C channels, m = n/C a channel, a = 1 with scale and shift, else 0.

    - Forward, per channel: scale ``γ / sqrt(var + ε)`` (1 +, 2 special), shift ``β - mean · scale``
      (1 ×, a +); per element ``x · scale + shift`` (1 ×, 1 +, not counted as a MAC, because the
      conventional figures do not).
    - Training adds per channel mean (m - 1 +, 1 special) and variance (m + to subtract the mean,
      m ×, m - 1 +, 1 special).  Running statistics, O(C), are left out.
    - The sums ``Σdy`` and ``Σdy · x̂`` are the gradients of β and γ; x̂ is computed anew (n +, n ×,
      then n ×, 2(n - C) +).  They are the weight gradient, or, without parameters, part of the
      input gradient, which needs them in any case.
    - Input gradient ``scale · (dy - Σdy/m - x̂ · Σ(dy · x̂)/m)``: 2n +, 2n ×, 2C special.
    """
    n, channels = elements(layer.input_shape), layer.input_shape[1]
    affine = int(layer.affine)
    sums = Work(additions=3 * n - 2 * channels, multiplications=2 * n)
    if pass_ == "weight_gradient":
        return sums if layer.affine else NO_WORK
    if pass_ == "input_gradient":
        spread = Work(additions=2 * n, multiplications=2 * n, special=2 * channels)
        return spread if layer.affine else sums + spread
    normalise = Work(
        additions=n + channels * (1 + affine), multiplications=n + channels, special=2 * channels
    )
    statistics = Work(additions=3 * n - 2 * channels, multiplications=n, special=2 * channels)
    return normalise + statistics if training else normalise


def _softmax_work(layer: Softmax, pass_: Pass) -> Work:
    """Softmax over R rows, n elements in all, the row's maximum subtracted first.

    - Forward: n - R comparisons, n + to subtract the maximum, n exponentials, n - R + to sum;
      then n divisions or, for the logarithm, R logarithms and n + to subtract them.
    - Input gradient ``y · (dy - Σ dy · y)``: n ×, n - R +, n +, n ×; of the logarithm
      ``dy - exp(y) · Σdy``: n - R +, n exponentials, n ×, n +.
    """
    n = elements(layer.input_shape)
    rows = n // layer.input_shape[-1]
    if pass_ == "input_gradient":
        once = Work(multiplications=n, special=n) if layer.log else Work(multiplications=2 * n)
        return once + Work(additions=2 * n - rows)
    last = Work(additions=n, special=rows) if layer.log else Work(special=n)
    return last + Work(additions=2 * n - rows, comparisons=n - rows, special=n)


def _dropout_work(layer: Dropout, pass_: Pass, training: bool) -> Work:
    """Training: a comparison and a product with the scaled mask an element; gradient: a product.

    Drawing the random numbers is not counted; inference does nothing.
    """
    n = elements(layer.input_shape)
    if pass_ == "forward" and training:
        return Work(comparisons=n, multiplications=n)
    return Work(multiplications=n) if pass_ == "input_gradient" else NO_WORK


#: Per element: the function, and its derivative times the output gradient, computed from what the
#: forward pass keeps (the output for sigmoid and tanh, else the input).
_ACTIVATIONS: Final[dict[str, tuple[Work, Work]]] = {
    # max(x, 0); dy where x > 0
    "relu": (Work(comparisons=1), Work(comparisons=1)),
    # min(max(x, 0), 6); dy where 0 < x < 6
    "relu6": (Work(comparisons=2), Work(comparisons=2)),
    # s = 1 / (1 + exp(-x)); dy · s · (1 - s)
    "sigmoid": (Work(additions=1, special=2), Work(additions=1, multiplications=2)),
    # t = tanh(x); dy · (1 - t · t)
    "tanh": (Work(special=1), Work(additions=1, multiplications=2)),
    # x · ½ · (1 + erf(x · √½)); dy · (½ · (1 + erf(x · √½)) + x · exp(x · x · -½) · 1/√2π)
    "gelu": (
        Work(additions=1, multiplications=3, special=1),
        Work(additions=2, multiplications=7, special=2),
    ),
    # x · s with s = 1 / (1 + exp(-x)); dy · s · (1 + x · (1 - s)), s computed anew
    "silu": (
        Work(additions=1, multiplications=1, special=2),
        Work(additions=3, multiplications=3, special=2),
    ),
    # x · relu6(x + 3) · ⅙; dy · (x · ⅓ + ½) where |x| < 3
    "hardswish": (
        Work(additions=1, multiplications=2, comparisons=2),
        Work(additions=1, multiplications=2, comparisons=2),
    ),
}
