"""Residual networks and MobileNetV2 as lists of layers, from the tables of their publications.

Theory needs shapes and no measurement: where no record holds a network yet, its shapes follow from
what its authors published (He et al., CVPR 2016, table 1, with the stride of a bottleneck in its
3 × 3 convolution; Sandler et al., CVPR 2018, table 2).  Layers are named as the modules of
``experiments.networks``, so that they equal what an experiment records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, TypedDict

from report.records.layers import (
    Activation,
    Addition,
    BatchNorm,
    Dropout,
    DType,
    Flatten,
    Layer,
    Linear,
    Pooling,
)
from report.theory.shapes import square_convolution

Shape: TypeAlias = tuple[int, ...]
Function: TypeAlias = Literal["relu", "relu6"]

_CLASSES: Final = 1000
_WIDTHS: Final = (64, 128, 256, 512)
_BLOCKS: Final = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}
#: A bottleneck puts out this many times the channels that it works on.
_EXPANSION: Final = 4
#: Expansion, channels, blocks and stride of the stages of MobileNetV2.
_INVERTED: Final = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class _Common(TypedDict):
    name: str
    input_shape: Shape
    output_shape: Shape
    dtype: DType


class _Chain:
    """Layers one after the other, below a common name; ``shape`` is what the last one put out."""

    def __init__(self, shape: Shape, name: str = "") -> None:
        self.shape = shape
        self.layers: list[Layer] = []
        self._prefix = f"{name}." if name else ""

    def _add(self, layer: Layer) -> _Chain:
        self.layers.append(layer)
        self.shape = layer.output_shape
        return self

    def _keeping_shape(self, name: str) -> _Common:
        """The fields of a layer that puts out what it takes in, as far as all layers have them."""
        shape = self.shape
        name = self._prefix + name
        return {"name": name, "input_shape": shape, "output_shape": shape, "dtype": "float32"}

    def convolution(
        self, name: str, channels: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> _Chain:
        """Without bias, padded so that a stride of 1 keeps the extents."""
        geometry = (channels, kernel, stride, (kernel - 1) // 2)
        name = self._prefix + name
        return self._add(square_convolution(name, self.shape, *geometry, groups=groups, bias=False))

    def norm(self, name: str) -> _Chain:
        return self._add(BatchNorm(**self._keeping_shape(name), affine=True))

    def activation(self, name: str, function: Function) -> _Chain:
        return self._add(Activation(**self._keeping_shape(name), function=function))

    def addition(self, name: str) -> _Chain:
        return self._add(Addition(**self._keeping_shape(name)))

    def pooling(
        self, name: str, mode: Literal["max", "average"], kernel: Shape, stride: Shape, pad: int
    ) -> _Chain:
        extents = zip(self.shape[2:], kernel, stride, strict=True)
        height, width = ((n + 2 * pad - k) // step + 1 for n, k, step in extents)
        return self._add(
            Pooling(
                name=self._prefix + name,
                input_shape=self.shape,
                output_shape=(*self.shape[:2], height, width),
                dtype="float32",
                mode=mode,
                kernel=(kernel[0], kernel[1]),
                stride=(stride[0], stride[1]),
                padding=(pad, pad),
            )
        )

    def classifier(self, dropout: float | None) -> _Chain:
        """The mean of every map, and scores from these."""
        window = self.shape[2:]
        self.pooling("average", "average", window, window, 0)
        flat = self.shape[:2]
        self._add(
            Flatten(name="flatten", input_shape=self.shape, output_shape=flat, dtype="float32")
        )
        if dropout is not None:
            self._add(Dropout(**self._keeping_shape("dropout"), probability=dropout))
        return self._add(
            Linear(
                name="fc",
                input_shape=flat,
                output_shape=(flat[0], _CLASSES),
                dtype="float32",
                bias=True,
            )
        )

    def then(self, other: _Chain) -> _Chain:
        """The layers of another chain, which begins where this one ends."""
        self.layers += other.layers
        self.shape = other.shape
        return self


def resnet(depth: Literal[18, 50], batch: int = 1, side: int = 224) -> tuple[Layer, ...]:
    """ResNet-18 or ResNet-50 (v1.5) on square images of ``side`` pixels."""
    net = _Chain((batch, 3, side, side)).convolution("conv", 64, 7, 2).norm("bn")
    net.activation("relu", "relu").pooling("pool", "max", (3, 3), (2, 2), 1)
    for stage, (width, blocks) in enumerate(zip(_WIDTHS, _BLOCKS[depth], strict=True), start=1):
        for number in range(1, blocks + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            net.then(_residual(net.shape, f"stage{stage}_block{number}", depth, width, stride))
    return tuple(net.classifier(dropout=None).layers)


def _residual(shape: Shape, name: str, depth: int, width: int, stride: int) -> _Chain:
    """A block of two or three convolutions, its projection where shapes differ, and the sum."""
    block = _Chain(shape, name)
    after = width if depth == 18 else _EXPANSION * width
    if depth == 18:
        block.convolution("conv1", width, 3, stride).norm("bn1").activation("relu1", "relu")
        block.convolution("conv2", width, 3).norm("bn2")
    else:
        block.convolution("conv1", width, 1).norm("bn1").activation("relu1", "relu")
        block.convolution("conv2", width, 3, stride).norm("bn2").activation("relu2", "relu")
        block.convolution("conv3", after, 1).norm("bn3")
    if stride != 1 or shape[1] != after:
        way = _Chain(shape, f"{name}.shortcut")
        block.then(way.convolution("conv1", after, 1, stride).norm("bn1"))
    return block.addition("add").activation("last", "relu")


def mobilenet_v2(batch: int = 1, side: int = 224) -> tuple[Layer, ...]:
    """MobileNetV2 of width 1 on square images of ``side`` pixels."""
    net = _Chain((batch, 3, side, side)).convolution("first_conv", 32, 3, 2).norm("first_bn")
    net.activation("first_relu", "relu6")
    for stage, (expansion, channels, blocks, first) in enumerate(_INVERTED, start=1):
        for number in range(1, blocks + 1):
            stride = first if number == 1 else 1
            name = f"stage{stage}_block{number}"
            net.then(_inverted(net.shape, name, expansion, channels, stride))
    net.convolution("last_conv", 1280, 1).norm("last_bn").activation("last_relu", "relu6")
    return tuple(net.classifier(dropout=0.2).layers)


def _inverted(shape: Shape, name: str, expansion: int, channels: int, stride: int) -> _Chain:
    """Few channels to many, a depthwise convolution on those, and back to few."""
    block, hidden = _Chain(shape, name), shape[1] * expansion
    if expansion != 1:
        block.convolution("expand_conv", hidden, 1).norm("expand_bn")
        block.activation("expand_relu", "relu6")
    block.convolution("depthwise_conv", hidden, 3, stride, hidden).norm("depthwise_bn")
    block.activation("depthwise_relu", "relu6")
    block.convolution("project_conv", channels, 1).norm("project_bn")
    return block.addition("add") if block.shape == shape else block


#: The networks by name.
ARCHITECTURES: Final[dict[str, Callable[[int, int], tuple[Layer, ...]]]] = {
    "ResNet-18": lambda batch, side: resnet(18, batch, side),
    "ResNet-50": lambda batch, side: resnet(50, batch, side),
    "MobileNetV2": mobilenet_v2,
}
