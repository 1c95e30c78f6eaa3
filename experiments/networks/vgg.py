"""VGG (Simonyan and Zisserman, ICLR 2015, arXiv:1409.1556, table 1, columns A, B, D and E)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from torch import nn

from experiments.networks.imagenet import classifier

CHANNELS: Final = (64, 128, 256, 512, 512)
#: Convolutions in each of the five stages, by the number of layers with weights.
STAGES: Final = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}


def vgg(depth: int = 16, *, in_place: bool = False) -> nn.Sequential:
    """``(N, 3, 224, 224)`` to scores ``(N, 1000)``; 138,357,544 parameters at depth 16."""
    parts = dict(_features(STAGES[depth], in_place))
    parts.update(classifier(512 * 7 * 7, in_place))
    return nn.Sequential(OrderedDict(parts))


def _features(stages: tuple[int, ...], in_place: bool) -> Iterator[tuple[str, nn.Module]]:
    """Convolutions of 3 × 3 that keep the extents, and a pooling that halves them, per stage."""
    before = 3
    for stage, (count, channels) in enumerate(zip(stages, CHANNELS, strict=True), start=1):
        for number in range(1, count + 1):
            yield f"conv{stage}_{number}", nn.Conv2d(before, channels, 3, padding=1)
            yield f"relu{stage}_{number}", nn.ReLU(in_place)
            before = channels
        yield f"pool{stage}", nn.MaxPool2d(2)
