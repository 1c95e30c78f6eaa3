"""Writes the operators of the studies' networks for papers: ``experiments theory --capture``."""

from __future__ import annotations

import gzip
from functools import partial
from typing import Final

import msgspec
import torch

from experiments.harness.capture import layers_of
from experiments.harness.operators import Input, Policy, capture
from experiments.networks.catalogue import INPUT_SHAPES, network
from experiments.theory.command import prepared
from report.errors import MeasurementError
from report.records.operations import Network
from report.theory.networks import BATCH, Captured, Kept, Way, file_of

_TRAINED: Final = ("ResNet-18", "ResNet-50", "MobileNetV2")
#: Further sizes of images, beside those that networks are made for.
_IMAGES: Final = {"ResNet-20": (224,), **dict.fromkeys(_TRAINED, (64,))}
_INFERRED: Final = (
    "LeNet-5", "ResNet-20", "ResNet-32", "ResNet-44", "ResNet-56", "ResNet-110", "AlexNet",
    "VGG-16",
)  # fmt: skip
_INFERENCES: Final = tuple(
    Way("inference", layout, precision)
    for layout in ("contiguous", "channels_last")
    for precision in ("float32", "bfloat16")
)


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
    last = way.layout == "channels_last"
    build = prepared(partial(network, name, in_place=train), "float32", last)
    shape = (batch, INPUT_SHAPES[name][0], image, image)
    found = capture(
        lambda: build().eval(),
        [Input(shape, channels_last=last)],
        train=train,
        policy=Policy(autocast=None if way.precision == "float32" else way.precision),
    ).network
    if not train:
        return found
    end = next(n for n, each in enumerate(found.operators) if each.phase == "backward")
    return msgspec.structs.replace(found, operators=found.operators[: end + 1])
