"""Layers, tensors and operators as in records, and networks whose shapes ``Chain`` computes."""

from __future__ import annotations

from math import prod
from typing import Any

from report.core.records import layers
from report.core.records.layers import Convolution, Layer
from report.core.records.operations import Operator, Tensor


def convolution(
    input_shape: tuple[int, ...],
    channels: int,
    kernel: tuple[int, int],
    output_extents: tuple[int, int] | None = None,
    **settings: Any,
) -> Convolution:
    """Return a convolution; ``settings`` are its other fields, such as ``stride``.

    By default, ``output_extents`` (height and width) follow from the formula of torch.nn.Conv2d.
    """
    window = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)} | settings

    def extent(axis: int) -> int:
        window_extent = window["dilation"][axis] * (kernel[axis] - 1) + 1
        padded = input_shape[2 + axis] + 2 * window["padding"][axis]
        return (padded - window_extent) // window["stride"][axis] + 1

    extents = output_extents or (extent(0), extent(1))
    defaults = {"name": "conv", "dtype": "float32", "groups": 1, "bias": True, "transposed": False}
    return Convolution(
        input_shape=input_shape,
        output_shape=(input_shape[0], channels, *extents),
        kernel=kernel,
        **defaults | window,
    )


def tensor(storage: int, *shape: int, dtype: str = "float32", last: bool = False) -> Tensor:
    """Return a tensor that fills the storage of number ``storage``.

    Its elements are in row-major order, or with ``last`` in channels-last order (four axes).
    """
    axes_from_innermost = (1, 3, 2, 0) if last else tuple(reversed(range(len(shape))))
    strides, stride = [0] * len(shape), 1
    for axis in axes_from_innermost:
        strides[axis] = stride
        stride *= shape[axis]
    return Tensor(storage, shape, tuple(strides), dtype)


def operator(name: str, reads: dict[str, Tensor], result: Tensor, **change: Any) -> Operator:
    """Return one call of an operator; ``reads``: argument → tensor.

    By default the call is in the forward pass; ``change`` overrides fields.
    """
    fields: dict[str, Any] = {"module": "", "phase": "forward", "settings": {}} | change
    arguments = {argument: (source,) for argument, source in reads.items()}
    return Operator(name=f"{name}.default", reads=arguments, writes=(result,), **fields)


class Chain:
    """Layers in sequence for an input of ``shape``; methods that return a Chain append a layer."""

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

    @property
    def only(self) -> Any:
        """Return the only layer."""
        (layer,) = self.layers
        return layer

    def _base(self) -> dict[str, Any]:
        """Return the fields that all layers have, of a next layer that keeps the shape."""
        shapes = {"input_shape": self.shape, "output_shape": self.shape}
        return {"name": self._name, "dtype": "float32"} | shapes

    def conv(
        self, channels: int, kernel: int, stride: int = 1, padding: int = 0, **settings: Any
    ) -> Chain:
        window = {"stride": (stride,) * 2, "padding": (padding,) * 2, "name": self._name}
        return self._add(convolution(self.shape, channels, (kernel,) * 2, **window | settings))

    def pool(self, mode: str, kernel: int, stride: int | None = None, padding: int = 0) -> Chain:
        step = stride or kernel
        extents = ((n + 2 * padding - kernel) // step + 1 for n in self.shape[2:])
        window = {"kernel": (kernel,) * 2, "stride": (step,) * 2, "padding": (padding,) * 2}
        base = self._base() | {"output_shape": (*self.shape[:2], *extents)}
        return self._add(layers.Pooling(**base, mode=mode, **window))

    def linear(self, features: int, bias: bool = True) -> Chain:
        base = self._base() | {"output_shape": (*self.shape[:-1], features)}
        return self._add(layers.Linear(**base, bias=bias))

    def flatten(self) -> Chain:
        flat = (self.shape[0], prod(self.shape[1:]))
        return self._add(layers.Flatten(**self._base() | {"output_shape": flat}))

    def then(self, layer_type: type[Any], **settings: Any) -> Chain:
        """Append a layer that does not change the shape."""
        return self._add(layer_type(**self._base(), **settings))

    def act(self) -> Chain:
        return self.then(layers.Activation, function="relu")


def mnist_example(batch: int = 1) -> list[Layer]:
    """Return the layers of the CNN in pytorch/examples/mnist."""
    net = Chain(batch, 1, 28, 28).conv(32, 3).act().conv(64, 3).act().pool("max", 2)
    net.then(layers.Dropout, probability=0.25).flatten().linear(128).act()
    net.then(layers.Dropout, probability=0.5).linear(10)
    return net.then(layers.Softmax, log=True).layers
