"""Output shapes and parameters of layers from their geometry, and a check of recorded shapes.

Shapes are ``(N, C, H, W)`` or ``(N, ..., features)``.  In formulas N is the batch, C channels,
K the kernel, S the stride, P the padding, D the dilation, G the groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from report.core.errors import StudyError
from report.core.records.layers import (
    BatchNorm,
    Convolution,
    Flatten,
    Layer,
    Linear,
    PaddedShortcut,
    Pooling,
)


def square_convolution(
    name: str,
    input_shape: tuple[int, ...],
    channels: int,
    kernel: int,
    stride: int = 1,
    padding: int = 0,
    *,
    groups: int = 1,
    bias: bool = True,
) -> Convolution:
    """Return a float32 convolution with the same geometry along both axes and no dilation."""
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
        groups=groups,
        bias=bias,
        transposed=False,
    )


def mnist_conv2(batch: int) -> Convolution:
    """Return the second convolution of PyTorch's MNIST example: Conv2d(32, 64, 3) on 26 × 26."""
    return square_convolution("conv2", (batch, 32, 26, 26), channels=64, kernel=3)


def elements(shape: Iterable[int]) -> int:
    """Return the number of elements of a tensor."""
    return math.prod(shape)


def round_up(size: int, multiple: int) -> int:
    """Return the smallest multiple of ``multiple`` that is at least ``size``."""
    return -(-size // multiple) * multiple


def output_shape(layer: Layer) -> tuple[int, ...]:
    """Compute the output shape from input shape and geometry.

    Channels of a convolution and features of a linear layer are free and come from the stored
    shape.  Extents (Dumoulin and Visin, arXiv:1603.07285; torch.nn.Conv2d):

    - convolution, pooling: ``floor((H + 2P - D(K - 1) - 1) / S) + 1``;
    - transposed convolution: ``(H - 1)S - 2P + D(K - 1) + 1``, the smallest extent from which a
      convolution leads back to H; up to S - 1 rows or columns may be added (and must be, where the
      formula is below 1), but no field of the layer contains their number.

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
            # The number of added channels is free, so only a loss of channels is a contradiction.
            _need_four_axes(layer)
            strides = zip(layer.input_shape[2:], layer.stride, strict=True)
            extents = tuple(-(-extent // stride) for extent, stride in strides)
            channels = max(layer.input_shape[1], layer.output_shape[1])
            return (layer.input_shape[0], channels, *extents)
        case _:
            return layer.input_shape


def check(layer: Layer) -> None:
    """Raise ``StudyError`` where the stored shapes contradict the geometry."""
    if isinstance(layer, Convolution):
        _need_four_axes(layer)
        if layer.input_shape[1] % layer.groups or layer.output_shape[1] % layer.groups:
            raise _contradiction(layer, f"{layer.groups} groups do not divide the channels")
    expected, stored = output_shape(layer), layer.output_shape
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
    _need_four_axes(layer)
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


def _need_four_axes(layer: Convolution | Pooling | PaddedShortcut) -> None:
    if len(layer.input_shape) != 4 or len(layer.output_shape) != 4:
        raise _contradiction(layer, "both must have the four axes (N, C, H, W)")


def _contradiction(layer: Layer, why: str) -> StudyError:
    return StudyError(
        f"layer {layer.name}: the stored shapes {layer.input_shape} -> {layer.output_shape} are "
        f"impossible, {why}; run the experiment again."
    )


def weight_count(layer: Layer) -> int:
    """Count factors: ``C_out · C_in/G · K_h · K_w``, features in × out, or one per channel."""
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
    """Count trained summands: one per output channel or feature, if the layer has them."""
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
    """Count trained numbers; a batch norm's running statistics are not among them."""
    return weight_count(layer) + bias_count(layer)
