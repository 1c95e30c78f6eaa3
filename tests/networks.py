"""Layers, tensors and operators as in records, and networks whose shapes ``Chain`` computes."""

from __future__ import annotations

from typing import Any

import msgspec

from report.core.records import layers
from report.core.records.layers import Convolution, Layer
from report.core.records.operations import Operator, Tensor
from report.theory.work import output_shape


def with_output(layer: Any) -> Any:
    """Compute the output shape of a layer from the layer's other fields."""
    return msgspec.structs.replace(layer, output_shape=output_shape(layer))


def convolution(
    input_shape: tuple[int, ...], channels: int, kernel: tuple[int, int], **settings: Any
) -> Convolution:
    """Return a convolution; ``settings`` are its other fields, such as ``stride``."""
    fields = {"name": "conv", "dtype": "float32", "groups": 1, "bias": True, "transposed": False}
    fields |= {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "kernel": kernel}
    shapes = {"input_shape": input_shape, "output_shape": (input_shape[0], channels, 0, 0)}
    layer: Convolution = with_output(Convolution(**shapes, **fields | settings))
    return layer


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

    @property
    def only(self) -> Any:
        """Return the only layer."""
        (layer,) = self.layers
        return layer

    def _append(self, layer: Layer) -> Chain:
        self.layers.append(layer)
        self.shape = layer.output_shape
        return self

    def then(self, layer_type: type[Any], **fields: Any) -> Chain:
        """Append a layer of this type; by default its output has the shape of the input."""
        shapes = {"input_shape": self.shape, "output_shape": self.shape}
        plain = {"name": f"layer{len(self.layers)}", "dtype": "float32", **shapes}
        return self._append(with_output(layer_type(**plain | fields)))

    def conv(
        self, channels: int, kernel: int, stride: int = 1, padding: int = 0, **settings: Any
    ) -> Chain:
        window = {"stride": (stride,) * 2, "padding": (padding,) * 2} | settings
        name = f"layer{len(self.layers)}"
        return self._append(convolution(self.shape, channels, (kernel,) * 2, name=name, **window))

    def pool(self, mode: str, size: int) -> Chain:
        window = {"kernel": (size,) * 2, "stride": (size,) * 2, "padding": (0, 0)}
        return self.then(layers.Pooling, mode=mode, **window)

    def linear(self, features: int) -> Chain:
        shape = (*self.shape[:-1], features)
        return self.then(layers.Linear, output_shape=shape, bias=True)

    def flatten(self) -> Chain:
        return self.then(layers.Flatten)

    def act(self) -> Chain:
        return self.then(layers.Activation, function="relu")
