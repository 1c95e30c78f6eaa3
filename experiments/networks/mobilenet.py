"""MobileNetV2 (Sandler, Howard, Zhu, Zhmoginov and Chen, CVPR 2018, table 2)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from torch import nn

from experiments.networks.blocks import CLASSES, Residual

#: The rows of the table: expansion, channels, blocks, and the stride of the first of them.
_STAGES: Final = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_FIRST: Final = 32
_LAST: Final = 1280


def mobilenet_v2(*, in_place: bool = False) -> nn.Sequential:
    """``(N, 3, 224, 224)`` to scores ``(N, 1000)``; 3,504,872 parameters, width 1.

    Other extents are possible too.  Weights start as torchvision's do.
    """
    network = nn.Sequential(
        OrderedDict[str, nn.Module](
            **dict(_convolution("first", 3, _FIRST, 3, 2, in_place=in_place)),
            **dict(_blocks(in_place)),
            **dict(_convolution("last", 320, _LAST, 1, in_place=in_place)),
            average=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            dropout=nn.Dropout(0.2),
            fc=nn.Linear(_LAST, CLASSES),
        )
    )
    _start_weights(network)
    return network


def _blocks(in_place: bool) -> Iterator[tuple[str, nn.Module]]:
    before = _FIRST
    for number, (expansion, channels, blocks, first) in enumerate(_STAGES, start=1):
        for block in range(1, blocks + 1):
            stride = first if block == 1 else 1
            parts = _inverted(before, channels, expansion, stride, in_place)
            added = stride == 1 and before == channels
            made = Residual(parts.items()) if added else nn.Sequential(OrderedDict(parts))
            yield f"stage{number}_block{block}", made
            before = channels


def _inverted(
    before: int, channels: int, expansion: int, stride: int, in_place: bool
) -> dict[str, nn.Module]:
    """Few channels to many, a depthwise convolution on those, and back to few without a ReLU."""
    hidden = before * expansion
    parts: dict[str, nn.Module] = {}
    if expansion != 1:
        parts |= _convolution("expand", before, hidden, 1, in_place=in_place)
    parts |= _convolution("depthwise", hidden, hidden, 3, stride, groups=hidden, in_place=in_place)
    parts |= _convolution("project", hidden, channels, 1, in_place=None)
    return parts


def _convolution(
    name: str,
    before: int,
    channels: int,
    kernel: int,
    stride: int = 1,
    *,
    groups: int = 1,
    in_place: bool | None,
) -> dict[str, nn.Module]:
    """Convolution, batch normalisation and ReLU6; ``in_place`` None leaves the last out."""
    padding = (kernel - 1) // 2
    parts: dict[str, nn.Module] = {
        f"{name}_conv": nn.Conv2d(
            before, channels, kernel, stride, padding, groups=groups, bias=False
        ),
        f"{name}_bn": nn.BatchNorm2d(channels),
    }
    return parts if in_place is None else {**parts, f"{name}_relu": nn.ReLU6(in_place)}


def _start_weights(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.01)
            nn.init.zeros_(module.bias)
