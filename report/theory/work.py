"""Shapes, parameters, multiply-adds per pass, bytes and compulsory traffic of layers.

Papers compute theory from the geometry of layers in a record.  A multiply-add is one MAC and two
FLOPs.  MACs and FLOPs are different types, and only ``flops`` converts MACs to FLOPs.

A dot product of m terms is m MACs: the accumulator starts at zero, as in a fused multiply-add.
A convolution counts every position of the kernel, also positions over the padding, as published
figures do; ``valid_tap_macs`` excludes the padding.

Sizes are in bytes, computed from shapes and element types, without an allocator's rounding and
without workspaces of algorithms.

Shapes are ``(N, C, H, W)`` or ``(N, ..., features)``.  In formulas N is the batch, C channels,
K the kernel, S the stride, P the padding, D the dilation, G the groups.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import starmap
from typing import Final, Literal, NewType, TypeAlias, get_args

from report.core.errors import StudyError
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

Macs = NewType("Macs", int)
Flops = NewType("Flops", int)
LayerPass: TypeAlias = Literal["forward", "weight_gradient", "input_gradient"]
#: All passes of a layer, the forward pass first.
PASSES: Final[tuple[LayerPass, ...]] = get_args(LayerPass)


def square_convolution(
    name: str,
    input_shape: tuple[int, ...],
    channels: int,
    kernel: int,
    stride: int = 1,
    padding: int = 0,
) -> Convolution:
    """Return a float32 convolution with a bias, and with the same geometry along both axes."""
    height, width = ((n + 2 * padding - kernel) // stride + 1 for n in input_shape[2:])
    return Convolution(
        name=name,
        input_shape=input_shape,
        output_shape=(input_shape[0], channels, height, width),
        dtype="float32",
        kernel=(kernel, kernel),
        stride=(stride, stride),
        padding=(padding, padding),
        dilation=(1, 1),
        groups=1,
        bias=True,
        transposed=False,
    )


def mnist_conv2(batch: int) -> Convolution:
    """Return the second convolution of PyTorch's MNIST example: Conv2d(32, 64, 3) on 26 × 26."""
    return square_convolution("conv2", (batch, 32, 26, 26), channels=64, kernel=3)


def elements(shape: Iterable[int]) -> int:
    """Return the number of elements of a tensor."""
    return math.prod(shape)


def round_up(size: int, multiple: int) -> int:
    """Round ``size`` up to a multiple of ``multiple``."""
    return -(-size // multiple) * multiple


def output_shape(layer: Layer) -> tuple[int, ...]:
    """Compute the output shape from input shape and geometry.

    The geometry does not determine channels of a convolution and features of a linear layer, which
    come from the stored shape.  Height and width (Dumoulin and Visin, arXiv:1603.07285;
    torch.nn.Conv2d):

    - convolution, pooling: ``floor((H + 2P - D(K - 1) - 1) / S) + 1``;
    - transposed convolution: ``(H - 1)S - 2P + D(K - 1) + 1``.  The layer may add up to S - 1 rows
      or columns, and must do so if the formula is below 1.  Records do not state the added rows.

    Raises ``StudyError`` if a shape has the wrong number of axes or the kernel does not fit.
    """
    match layer:
        case Convolution() | Pooling():
            extents = _extents(layer)
            pooled = isinstance(layer, Pooling)
            channels = layer.input_shape[1] if pooled else layer.output_shape[1]
            return (layer.input_shape[0], channels, *extents)
        case Linear():
            return (*layer.input_shape[:-1], layer.output_shape[-1])
        case Flatten():
            return (layer.input_shape[0], elements(layer.input_shape[1:]))
        case PaddedShortcut():
            # Any number of added channels is possible; only a loss of channels is an error.
            _require_four_axes(layer)
            strides = zip(layer.input_shape[2:], layer.stride, strict=True)
            extents = tuple(-(-extent // stride) for extent, stride in strides)
            channels = max(layer.input_shape[1], layer.output_shape[1])
            return (layer.input_shape[0], channels, *extents)
        case _:
            return layer.input_shape


def check_shapes(layer: Layer) -> None:
    """Raise ``StudyError`` if the stored shapes contradict the geometry."""
    if isinstance(layer, Convolution):
        _require_four_axes(layer)
        if layer.input_shape[1] % layer.groups or layer.output_shape[1] % layer.groups:
            raise _contradiction(layer, f"{layer.groups} groups do not divide the channels")
    expected, stored = output_shape(layer), layer.output_shape
    # A transposed convolution may add rows and columns at the end of its output.
    slack: tuple[int, ...] = (0,) * len(expected)
    if isinstance(layer, Convolution) and layer.transposed:
        slack = (0, 0, layer.stride[0] - 1, layer.stride[1] - 1)
    agrees = len(stored) == len(expected) and all(
        least <= extent <= least + extra
        for least, extent, extra in zip(expected, stored, slack, strict=True)
    )
    if not agrees:
        raise _contradiction(layer, f"the geometry gives {expected}")


def _extents(layer: Convolution | Pooling) -> tuple[int, ...]:
    """Return height and width of the output by the formulas of ``output_shape``."""
    _require_four_axes(layer)
    dilation = layer.dilation if isinstance(layer, Convolution) else (1, 1)
    geometry = (layer.input_shape[2:], layer.kernel, layer.stride, layer.padding, dilation)
    transposed = isinstance(layer, Convolution) and layer.transposed
    extents = []
    for size, kernel, stride, padding, step in zip(*geometry, strict=True):
        reach = step * (kernel - 1) + 1
        if transposed:
            extents.append((size - 1) * stride - 2 * padding + reach)
        else:
            extents.append((size + 2 * padding - reach) // stride + 1)
    if not transposed and min(extents) < 1:
        raise _contradiction(layer, f"the kernel {layer.kernel} does not fit the input")
    return tuple(extents)


def _require_four_axes(layer: Convolution | Pooling | PaddedShortcut) -> None:
    if len(layer.input_shape) != 4 or len(layer.output_shape) != 4:
        raise _contradiction(layer, "both must have the four axes (N, C, H, W)")


def _contradiction(layer: Layer, reason: str) -> StudyError:
    return StudyError(
        f"layer {layer.name}: the stored shapes {layer.input_shape} -> {layer.output_shape} are "
        f"impossible, {reason}; run the experiment again."
    )


def weight_count(layer: Layer) -> int:
    """Count the weights of a layer.

    - Convolution: ``C_out · C_in/G · K_h · K_w``.
    - Linear layer: features in × features out.
    - Affine batch norm: one weight per channel.  Other layers have no weights.
    """
    match layer:
        case Convolution():
            channels = layer.input_shape[1] * layer.output_shape[1] // layer.groups
            return channels * elements(layer.kernel)
        case Linear():
            return layer.input_shape[-1] * layer.output_shape[-1]
        case BatchNorm():
            return layer.input_shape[1] if layer.affine else 0
        case _:
            return 0


def bias_count(layer: Layer) -> int:
    """Count biases: one per output channel or feature, if the layer has biases."""
    match layer:
        case Convolution():
            return layer.output_shape[1] if layer.bias else 0
        case Linear():
            return layer.output_shape[-1] if layer.bias else 0
        case BatchNorm():
            return weight_count(layer)
        case _:
            return 0


def parameter_count(layer: Layer) -> int:
    """Count parameters; running statistics of a batch norm are not parameters."""
    return weight_count(layer) + bias_count(layer)


def flops(macs: Macs) -> Flops:
    """Convert multiply-adds to floating-point operations (a multiplication and an addition)."""
    return Flops(2 * macs)


@lru_cache(maxsize=2**14)  # records and cases share layers
def macs(layer: Layer, pass_: LayerPass = "forward") -> Macs:
    """Return the multiply-adds of one pass of a convolution or linear layer; 0 for other layers.

    - Convolution: ``N · H_out · W_out · C_out · C_in/G · K_h · K_w``.
    - Transposed convolution: the same formula with H and W of the input.
    - Linear layer: rows × features in × features out.

    All three passes have equally many multiply-adds: a product of the forward pass corresponds to
    one product in the weight gradient (input × output gradient) and one in the input gradient
    (weight × output gradient).  The optimiser's update is not counted.
    """
    match layer:
        case Convolution():
            batch, _, *extents = layer.input_shape if layer.transposed else layer.output_shape
            return Macs(batch * elements(extents) * weight_count(layer))
        case Linear():
            return Macs(elements(layer.input_shape[:-1]) * weight_count(layer))
        case _:
            return Macs(0)


def valid_tap_macs(layer: Layer) -> Macs:
    """Return the forward multiply-adds without taps over the padding.

    For a transposed convolution, taps count only if their result is inside the cropped output.
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

    ``windows`` are kernel, stride, padding and dilation, each with a number per axis.
    """
    # The window of an output position covers a part of the input.  In a transposed convolution, the
    # window of an input position covers a part of the output.
    positions, extents = (source, result) if transposed else (result, source)
    pairs = math.prod(starmap(_pairs, zip(positions, extents, *windows, strict=True)))
    return Fraction(pairs, math.prod(positions) * math.prod(windows[0]))


def _pairs(positions: int, size: int, kernel: int, stride: int, padding: int, step: int) -> int:
    """Count pairs (position o, tap k) along one axis with ``0 <= oS - P + kD < size`` (D: step)."""
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
    """Return the multiply-adds of one training step, without input gradients of first layers."""
    chain = tuple(layers)
    passes = zip(chain, training_passes(chain), strict=True)
    return Macs(sum(macs(layer, pass_) for layer, needed in passes for pass_ in needed))


def training_passes(layers: Sequence[Layer]) -> tuple[tuple[LayerPass, ...], ...]:
    """Return the passes of each layer in a training step.

    Layers up to the first layer with parameters need no input gradient, since no earlier layer is
    trained.
    """
    first = next((i for i, layer in enumerate(layers) if parameter_count(layer)), len(layers))
    return tuple(PASSES if number > first else PASSES[:2] for number in range(len(layers)))


def element_bytes(layer: Layer) -> int:
    """Return the bytes of one element of a layer's tensors."""
    return ELEMENT_BYTES[layer.dtype]


def input_bytes(layer: Layer) -> int:
    """Return the bytes of one input tensor; an addition reads two such tensors."""
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
    that runs alone.  Fused layers may move fewer bytes.  Dropout is in training mode.

    - Forward pass: reads parameters and input (an addition reads both inputs), writes the output.
      A flatten is a view and moves no bytes.  A padded shortcut reads only what its stride keeps.
    - Weight gradient: reads the input and the output gradient, writes the parameter gradient.  A
      layer without parameters has no weight gradient and moves no bytes.
    - Input gradient: reads output gradient, weights and saved tensors, writes the input gradient.
      Batch norm, activations and maximum pooling save the input.  Softmax saves the output.
      Dropout saves a mask of one byte per element.  An addition passes on the output gradient and
      moves no bytes.  A padded shortcut reads only gradients of elements that its stride keeps.
    """
    if isinstance(layer, Flatten):
        return 0
    parameters, inputs, outputs = parameter_bytes(layer), input_bytes(layer), output_bytes(layer)
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
