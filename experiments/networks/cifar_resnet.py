"""Residual networks for CIFAR-10 (He, Zhang, Ren and Sun, CVPR 2016, section 4.2)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import product
from typing import Final

import torch
from torch import nn

from experiments.networks.blocks import Add, OptionAShortcut

DEPTHS: Final = (20, 32, 44, 56, 110)
CHANNELS: Final = (16, 32, 64)


class BasicBlock(nn.Module):
    """Two convolutions of 3 × 3 with batch normalisation, and a way around them."""

    def __init__(self, before: int, channels: int, stride: int, in_place: bool) -> None:
        super().__init__()
        self.conv1 = convolution(before, channels, stride)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(in_place)
        self.conv2 = convolution(channels, channels)
        self.bn2 = nn.BatchNorm2d(channels)
        changes = before != channels
        self.shortcut = OptionAShortcut(before, channels, stride) if changes else nn.Identity()
        self.add = Add()
        self.relu2 = nn.ReLU(in_place)

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        """``(N, C, H, W)`` to ``(N, C', H / stride, W / stride)``.

        One name, step by step: a nested call would keep its argument alive a step longer.
        """
        result: torch.Tensor = self.conv1(source)
        result = self.bn1(result)
        result = self.relu1(result)
        result = self.conv2(result)
        result = self.bn2(result)
        result = self.add(result, self.shortcut(source))
        return self.relu2(result)  # type: ignore[no-any-return]


def convolution(before: int, channels: int, stride: int = 1) -> nn.Conv2d:
    """3 × 3 without a bias, which the batch normalisation behind it has."""
    return nn.Conv2d(before, channels, 3, stride, padding=1, bias=False)


def cifar_resnet(depth: int, *, in_place: bool = False) -> nn.Sequential:
    """``(N, 3, H, W)``, H = W = 32 in the paper, to scores ``(N, 10)``; depth = 6n + 2.

    Three stages of n blocks with 16, 32 and 64 channels; the first block of the second and third
    stage halves the extents and goes around with ``OptionAShortcut``.  The blocks stand in one
    chain, so that no module around a stage holds the stage's input.  Weights start as in the paper
    (He et al., ICCV 2015).  Raises ``ValueError`` for a depth that is not 6n + 2.
    """
    if depth < 8 or depth % 6 != 2:
        raise ValueError(f"a residual network for CIFAR-10 has 6n + 2 layers, not {depth}")
    network = nn.Sequential(
        OrderedDict[str, nn.Module](
            conv=convolution(3, CHANNELS[0]),
            bn=nn.BatchNorm2d(CHANNELS[0]),
            relu=nn.ReLU(in_place),
            **dict(_blocks((depth - 2) // 6, in_place)),
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            fc=nn.Linear(CHANNELS[-1], 10),
        )
    )
    _start_weights(network)
    return network


def _blocks(count: int, in_place: bool) -> Iterator[tuple[str, nn.Module]]:
    before = CHANNELS[0]
    for (stage, channels), block in product(enumerate(CHANNELS, start=1), range(1, count + 1)):
        stride = 1 if before == channels else 2
        yield f"stage{stage}_block{block}", BasicBlock(before, channels, stride, in_place)
        before = channels


def _start_weights(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight)
