"""Known networks as lists of layers, for tests: what a measuring side would have recorded.

``Chain`` follows the shape through the network; every method appends one layer.
"""

from __future__ import annotations

from typing import Any

from report.records.layers import (
    Activation,
    Addition,
    BatchNorm,
    Convolution,
    Dropout,
    DType,
    Flatten,
    Layer,
    Linear,
    Pooling,
    Softmax,
)


def convolution(
    input_shape: tuple[int, int, int, int],
    channels: int,
    kernel: tuple[int, int],
    output_extents: tuple[int, int] | None = None,
    *,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    bias: bool = True,
    transposed: bool = False,
    dtype: DType = "float32",
) -> Convolution:
    """A convolution whose stored output is given, or else what the usual formula says."""
    if output_extents is None:
        geometry = zip(input_shape[2:], kernel, stride, padding, dilation, strict=True)
        height, width = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in geometry)
        output_extents = (height, width)
    return Convolution(
        name="conv",
        input_shape=input_shape,
        output_shape=(input_shape[0], channels, *output_extents),
        dtype=dtype,
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        bias=bias,
        transposed=transposed,
    )


def mnist_conv2(batch: int) -> Convolution:
    """The layer of the first study: Conv2d(32, 64, 3, 1) on 26 × 26, output 24 × 24."""
    return convolution((batch, 32, 26, 26), 64, (3, 3), (24, 24))


def linear(rows: int, inputs: int, outputs: int) -> Linear:
    """A linear layer with bias on ``rows`` images."""
    (layer,) = Chain(rows, inputs).linear(outputs).layers
    assert isinstance(layer, Linear)
    return layer


class Chain:
    """A network in the making."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.layers: list[Layer] = []

    def _add(self, layer: Layer) -> Chain:
        self.layers.append(layer)
        self.shape = layer.output_shape
        return self

    def _base(self) -> dict[str, object]:
        name = f"layer{len(self.layers)}"
        return {
            "name": name,
            "input_shape": self.shape,
            "output_shape": self.shape,
            "dtype": "float32",
        }

    def conv(
        self, channels: int, kernel: int, stride: int = 1, padding: int = 0, **more: Any
    ) -> Chain:
        window = {"stride": (stride,) * 2, "padding": (padding,) * 2}
        return self._add(convolution(self.shape, channels, (kernel,) * 2, **window, **more))

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
        n, *rest = self.shape
        features = 1
        for extent in rest:
            features *= extent
        return self._add(Flatten(**self._base() | {"output_shape": (n, features)}))

    def norm(self) -> Chain:
        return self._add(BatchNorm(**self._base(), affine=True))

    def act(self, function: str = "relu") -> Chain:
        return self._add(Activation(**self._base(), function=function))

    def add(self) -> Chain:
        return self._add(Addition(**self._base()))

    def dropout(self, probability: float) -> Chain:
        return self._add(Dropout(**self._base(), probability=probability))

    def softmax(self, log: bool = False) -> Chain:
        return self._add(Softmax(**self._base(), log=log))

    def conv_norm(
        self, channels: int, kernel: int, stride: int = 1, groups: int = 1, act: str | None = None
    ) -> Chain:
        self.conv(channels, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False).norm()
        return self.act(act) if act else self

    def side(self, channels: int, stride: int, shape: tuple[int, ...]) -> Chain:
        """A projection shortcut from ``shape``; the main path's shape stays."""
        branch = Chain(*shape).conv_norm(channels, 1, stride)
        assert branch.shape == self.shape
        self.layers += branch.layers
        return self


def lenet5(channels: int, batch: int = 1) -> list[Layer]:
    """LeNet-5 with dense connections, as frameworks teach it (LeCun et al. 1998)."""
    net = Chain(batch, channels, 32, 32).conv(6, 5).act("tanh").pool("average", 2)
    net.conv(16, 5).act("tanh").pool("average", 2).flatten()
    return net.linear(120).act("tanh").linear(84).act("tanh").linear(10).layers


def mnist_example(batch: int = 1) -> list[Layer]:
    """The CNN of pytorch/examples/mnist."""
    net = Chain(batch, 1, 28, 28).conv(32, 3).act().conv(64, 3).act().pool("max", 2)
    net.dropout(0.25).flatten().linear(128).act().dropout(0.5).linear(10)
    return net.softmax(log=True).layers


def alexnet(batch: int = 1) -> list[Layer]:
    """AlexNet as torchvision has it (one column)."""
    net = Chain(batch, 3, 224, 224).conv(64, 11, 4, 2).act().pool("max", 3, 2)
    net.conv(192, 5, 1, 2).act().pool("max", 3, 2)
    net.conv(384, 3, 1, 1).act().conv(256, 3, 1, 1).act().conv(256, 3, 1, 1).act()
    net.pool("max", 3, 2).pool("average", 1).flatten()
    net.dropout(0.5).linear(4096).act().dropout(0.5).linear(4096).act()
    return net.linear(1000).layers


def _stem(batch: int) -> Chain:
    return Chain(batch, 3, 224, 224).conv_norm(64, 7, 2, act="relu").pool("max", 3, 2, 1)


def resnet18(batch: int = 1) -> list[Layer]:
    """ResNet-18 of torchvision: two basic blocks a stage."""
    net = _stem(batch)
    for channels, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1),
                             (512, 2), (512, 1)):  # fmt: skip
        before = net.shape
        net.conv_norm(channels, 3, stride, act="relu").conv_norm(channels, 3)
        if stride == 2:
            net.side(channels, stride, before)
        net.add().act()
    return net.pool("average", 7).flatten().linear(1000).layers


def resnet50(batch: int = 1) -> list[Layer]:
    """ResNet-50 v1.5 of torchvision: the stride sits in the 3 × 3 convolution."""
    net = _stem(batch)
    for channels, blocks, stage_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            stride = stage_stride if block == 0 else 1
            before = net.shape
            net.conv_norm(channels, 1, act="relu").conv_norm(channels, 3, stride, act="relu")
            net.conv_norm(4 * channels, 1)
            if block == 0:
                net.side(4 * channels, stride, before)
            net.add().act()
    return net.pool("average", 7).flatten().linear(1000).layers


def mobilenet_v2(batch: int = 1) -> list[Layer]:
    """MobileNetV2 of torchvision: inverted residuals with depthwise convolutions."""
    net = Chain(batch, 3, 224, 224).conv_norm(32, 3, 2, act="relu6")
    for expand, channels, blocks, stage_stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for block in range(blocks):
            stride = stage_stride if block == 0 else 1
            before = net.shape
            hidden = before[1] * expand
            if expand != 1:
                net.conv_norm(hidden, 1, act="relu6")
            net.conv_norm(hidden, 3, stride, groups=hidden, act="relu6").conv_norm(channels, 1)
            if net.shape == before:
                net.add()
    net.conv_norm(1280, 1, act="relu6").pool("average", 7).flatten()
    return net.dropout(0.2).linear(1000).layers


def cifar_resnet(depth: int, batch: int = 1) -> list[Layer]:
    """A ResNet of 6n + 2 layers for 32 × 32 images, shortcuts without parameters (option A)."""
    net = Chain(batch, 3, 32, 32).conv_norm(16, 3, act="relu")
    for channels, stage_stride in ((16, 1), (32, 2), (64, 2)):
        for block in range((depth - 2) // 6):
            stride = stage_stride if block == 0 else 1
            net.conv_norm(channels, 3, stride, act="relu").conv_norm(channels, 3).add().act()
    return net.pool("average", 8).flatten().linear(10).layers


def perceptron(batch: int = 1) -> list[Layer]:
    """The 784-10-10 network of the fifth study."""
    return Chain(batch, 784).linear(10).act().linear(10).softmax().layers
