"""Writes the operators of the studies' networks for papers: ``experiments theory --capture``."""

from __future__ import annotations

import gzip
from functools import partial
from typing import Final

import msgspec
import torch
from torch import nn

from experiments.harness.capture import layers_of
from experiments.harness.operators import Input, Policy, capture
from experiments.networks.catalogue import INPUT_SHAPES, network
from report.errors import MeasurementError
from report.records.operations import Network
from report.theory.conditions import Layout
from report.theory.networks import BATCH, Captured, Kept, Way, file_of

_FORMATS: Final = {"contiguous": {}, "channels_last": {"memory_format": torch.channels_last}}
_TRAINED: Final = ("ResNet-18", "ResNet-50", "MobileNetV2")
#: Further sizes of images, beside those that networks are made for.
_IMAGES: Final = {"ResNet-20": (224,), **dict.fromkeys(_TRAINED, (64,))}
_INFERRED: Final = (
    "LeNet-5", "CIFAR", "ResNet-20", "ResNet-32", "ResNet-44", "ResNet-56", "ResNet-110",
    "AlexNet", "ZFNet", "VGG-16",
)  # fmt: skip
_INFERENCES: Final = tuple(
    Way("inference", layout, precision)
    for layout in ("contiguous", "channels_last")
    for precision in ("float32", "bfloat16")
)


def laid_out(module: nn.Module, layout: Layout) -> nn.Module:
    """A module for evaluation, with its parameters in ``layout``."""
    return module.eval().to(**_FORMATS[layout])  # type: ignore[call-overload, no-any-return]


def write_networks() -> None:
    """Capture every network at each of its sizes of images."""
    for name in (*_INFERRED, *_TRAINED):
        for image in (INPUT_SHAPES[name][1], *_IMAGES.get(name, ())):
            ways = (Way("training"),) if name in _TRAINED else _INFERENCES
            with torch.device("meta"):
                one = torch.empty((1, INPUT_SHAPES[name][0], image, image))
                layers = layers_of(network(name).eval(), one)
            found = {way.key: _captured(name, image, way) for way in ways}
            text = msgspec.json.encode(Kept(layers, found))
            file_of(name, image).write_bytes(gzip.compress(text, mtime=0))


def _captured(name: str, image: int, way: Way) -> Network:
    """A network at the batch that stands for all; raises ``MeasurementError`` if it does not."""
    found, other = (at_batch(name, image, way, batch) for batch in (BATCH, 3))
    if Captured(found).at(3) != other:
        raise MeasurementError(f"{name}: its operators do not grow in proportion to the batch.")
    return found


def at_batch(name: str, image: int, way: Way, batch: int) -> Network:
    """A network captured at a batch."""
    train = way.mode == "training"
    build = partial(network, name, in_place=train)
    shape = (batch, INPUT_SHAPES[name][0], image, image)
    found = capture(
        lambda: laid_out(build(), way.layout),
        [Input(shape, channels_last=way.layout == "channels_last")],
        train=train,
        policy=Policy(autocast=None if way.precision == "float32" else way.precision),
    ).network
    if not train:
        return found
    end = next(n for n, each in enumerate(found.operators) if each.phase == "backward")
    return msgspec.structs.replace(found, operators=found.operators[: end + 1])
