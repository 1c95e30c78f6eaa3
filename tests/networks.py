"""Known networks as lists of layers, as in records.

``Chain`` computes the shapes of layers; every method appends one layer.
"""

from __future__ import annotations

from math import prod
from typing import Any

from report.core.records.layers import (
    Activation,
    Convolution,
    Dropout,
    Flatten,
    Layer,
    Linear,
    Pooling,
    Softmax,
)
from report.core.records.operations import Operator, Tensor


def convolution(
    input_shape: tuple[int, ...],
    channels: int,
    kernel: tuple[int, int],
    output_extents: tuple[int, int] | None = None,
    **more: Any,
) -> Convolution:
    """Return a convolution; the usual formula computes ``output_extents`` if they are not given."""
    window = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)} | more
    if output_extents is None:
        sides = (window[name] for name in ("stride", "padding", "dilation"))
        geometry = zip(input_shape[2:], kernel, *sides, strict=True)
        height, width = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in geometry)
        output_extents = (height, width)
    defaults = {"name": "conv", "dtype": "float32", "groups": 1, "bias": True, "transposed": False}
    return Convolution(
        input_shape=input_shape,
        output_shape=(input_shape[0], channels, *output_extents),
        kernel=kernel,
        **defaults | window,
    )


def tensor(storage: int, *shape: int, dtype: str = "float32", last: bool = False) -> Tensor:
    """Return a tensor that fills a storage, in contiguous or channels-last (``last``) order."""
    order = (1, 3, 2, 0) if last else tuple(reversed(range(len(shape))))
    strides, step = [0] * len(shape), 1
    for place in order:
        strides[place], step = step, step * shape[place]
    return Tensor(storage, shape, tuple(strides), dtype)


def operator(name: str, reads: dict[str, Tensor], result: Tensor, **more: Any) -> Operator:
    """Return one call of an operator, by default in the forward pass."""
    fields: dict[str, Any] = {"module": "", "phase": "forward", "settings": {}} | more
    arguments = {name: (source,) for name, source in reads.items()}
    return Operator(name=f"{name}.default", reads=arguments, writes=(result,), **fields)


def mnist_conv2(batch: int) -> Convolution:
    """Return the layer of conv_scaling: Conv2d(32, 64, 3, 1) on 26 × 26, output 24 × 24."""
    return convolution((batch, 32, 26, 26), 64, (3, 3), (24, 24))


class Chain:
    """Layers in sequence, beginning with inputs of ``shape``."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.layers: list[Layer] = []

    def _add(self, layer: Layer) -> Chain:
        self.layers.append(layer)
        self.shape = layer.output_shape
        return self

    @property
    def _name(self) -> str:
        return f"layer{len(self.layers)}"

    def _base(self) -> dict[str, Any]:
        shapes = {"input_shape": self.shape, "output_shape": self.shape}
        return {"name": self._name, "dtype": "float32"} | shapes

    def conv(
        self, channels: int, kernel: int, stride: int = 1, padding: int = 0, **more: Any
    ) -> Chain:
        window = {"stride": (stride,) * 2, "padding": (padding,) * 2, "name": self._name}
        return self._add(convolution(self.shape, channels, (kernel,) * 2, **window | more))

    def pool(self, mode: str, kernel: int, stride: int | None = None, padding: int = 0) -> Chain:
        step = stride or kernel
        extents = ((n + 2 * padding - kernel) // step + 1 for n in self.shape[2:])
        window = {"kernel": (kernel,) * 2, "stride": (step,) * 2, "padding": (padding,) * 2}
        base = self._base() | {"output_shape": (*self.shape[:2], *extents)}
        return self._add(Pooling(**base, mode=mode, **window))

    def linear(self, features: int, bias: bool = True) -> Chain:
        base = self._base() | {"output_shape": (*self.shape[:-1], features)}
        return self._add(Linear(**base, bias=bias))

    def flatten(self) -> Chain:
        flat = (self.shape[0], prod(self.shape[1:]))
        return self._add(Flatten(**self._base() | {"output_shape": flat}))

    def then(self, kind: type[Any], **settings: Any) -> Chain:
        """Append a layer that does not change the shape."""
        return self._add(kind(**self._base(), **settings))

    def act(self) -> Chain:
        return self.then(Activation, function="relu")


def mnist_example(batch: int = 1) -> list[Layer]:
    """Return the layers of the CNN in pytorch/examples/mnist."""
    net = Chain(batch, 1, 28, 28).conv(32, 3).act().conv(64, 3).act().pool("max", 2)
    net.then(Dropout, probability=0.25).flatten().linear(128).act()
    return net.then(Dropout, probability=0.5).linear(10).then(Softmax, log=True).layers
