"""Residual networks for images of 224 × 224 pixels (He, Zhang, Ren and Sun, CVPR 2016, table 1)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, TypeAlias

from torch import nn

from experiments.networks.blocks import CLASSES, Residual

CHANNELS: Final = (64, 128, 256, 512)
#: Blocks in each of the four stages, by the number of layers with weights.
STAGES: Final = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}
#: A bottleneck puts out four times the channels that it works on.
EXPANSION: Final = 4

Parts: TypeAlias = Iterator[tuple[str, nn.Module]]


def resnet(depth: int, *, in_place: bool = False) -> nn.Sequential:
    """``(N, 3, 224, 224)`` to scores ``(N, 1000)``; other extents are possible too.

    Depth 18 has basic blocks and 11,689,512 parameters, depth 50 bottlenecks and 25,557,032.  The
    shortcut into a new stage is a projection (option B).  Weights start as torchvision's do (He et
    al., ICCV 2015, by the channels that are put out).  Raises ``ValueError`` for another depth.
    """
    if depth not in STAGES:
        raise ValueError(f"there is no ResNet-{depth} here; possible are {sorted(STAGES)}")
    last = CHANNELS[-1] * (EXPANSION if depth == 50 else 1)
    network = nn.Sequential(
        OrderedDict[str, nn.Module](
            conv=nn.Conv2d(3, CHANNELS[0], 7, 2, padding=3, bias=False),
            bn=nn.BatchNorm2d(CHANNELS[0]),
            relu=nn.ReLU(in_place),
            pool=nn.MaxPool2d(3, 2, padding=1),
            **dict(_blocks(depth, in_place)),
            average=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            fc=nn.Linear(last, CLASSES),
        )
    )
    start_convolutions(network)
    return network


def start_convolutions(network: nn.Module) -> None:
    """Draw the weights of all convolutions so that gradients keep their size on the way back."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def _blocks(depth: int, in_place: bool) -> Parts:
    make = _bottleneck if depth == 50 else _basic
    before = CHANNELS[0]
    for stage, (count, width) in enumerate(zip(STAGES[depth], CHANNELS, strict=True), start=1):
        for number in range(1, count + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            block = make(before, width, stride, in_place)
            yield f"stage{stage}_block{number}", block
            before = width * (EXPANSION if depth == 50 else 1)


def _basic(before: int, width: int, stride: int, in_place: bool) -> Residual:
    """Two convolutions of 3 × 3."""

    def parts() -> Parts:
        yield from convolution(1, before, width, 3, stride)
        yield "relu1", nn.ReLU(in_place)
        yield from convolution(2, width, width, 3)

    return Residual(parts(), shortcut(before, width, stride), nn.ReLU(in_place))


def _bottleneck(before: int, width: int, stride: int, in_place: bool) -> Residual:
    """1 × 1, 3 × 3 and 1 × 1; the stride stands in the middle, as in version 1.5 of this network.

    The paper has it in the first convolution; frameworks moved it, which takes more work and gives
    higher accuracy (NVIDIA DeepLearningExamples, ResNet-50 v1.5).
    """
    after = EXPANSION * width

    def parts() -> Parts:
        yield from convolution(1, before, width, 1)
        yield "relu1", nn.ReLU(in_place)
        yield from convolution(2, width, width, 3, stride)
        yield "relu2", nn.ReLU(in_place)
        yield from convolution(3, width, after, 1)

    return Residual(parts(), shortcut(before, after, stride), nn.ReLU(in_place))


def convolution(number: int, before: int, channels: int, kernel: int, stride: int = 1) -> Parts:
    """A convolution that keeps extents but for its stride, and its batch normalisation."""
    padding = (kernel - 1) // 2
    yield f"conv{number}", nn.Conv2d(before, channels, kernel, stride, padding, bias=False)
    yield f"bn{number}", nn.BatchNorm2d(channels)


def shortcut(before: int, channels: int, stride: int) -> nn.Module | None:
    """A convolution of 1 × 1 where the sum needs other channels or extents, else nothing."""
    if stride == 1 and before == channels:
        return None
    return nn.Sequential(OrderedDict(convolution(1, before, channels, 1, stride)))
