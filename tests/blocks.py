"""Residual blocks as lists of layers with the names that a record would hold."""

from __future__ import annotations

import msgspec

from report.records.layers import Layer, PaddedShortcut
from tests.networks import Chain


def named(layers: list[Layer], *names: str) -> list[Layer]:
    """The same layers under other names."""
    return [
        msgspec.structs.replace(layer, name=name) for layer, name in zip(layers, names, strict=True)
    ]


def plain_block(shape: tuple[int, ...], block: str, channels: int = 0) -> list[Layer]:
    """Two convolutions and a sum with the block's input; a shortcut where channels are given."""
    stride, width = (2, channels) if channels else (1, shape[1])
    net = Chain(*shape).conv(width, 3, stride, 1, bias=False).act().conv(width, 3, 1, 1, bias=False)
    layers = named(net.layers, f"{block}.conv1", f"{block}.relu1", f"{block}.conv2")
    if channels:
        layers.append(shortcut(shape, net.shape, f"{block}.shortcut"))
    tail = Chain(*net.shape).add().act().layers
    return layers + named(tail, f"{block}.add", f"{block}.relu2")


def shortcut(source: tuple[int, ...], target: tuple[int, ...], name: str) -> PaddedShortcut:
    """Every second row and column, and channels of zeros."""
    return PaddedShortcut(
        name=name, input_shape=source, output_shape=target, dtype="float32", stride=(2, 2)
    )
