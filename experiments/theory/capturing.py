"""Writes the operators of the studies' networks for papers: ``experiments theory --capture``."""

from __future__ import annotations

import gzip
from functools import partial
from itertools import product, starmap
from typing import Final, get_args

import msgspec
import torch

from experiments.harness.capture import capture_layers
from experiments.networks.catalogue import CHANGES, INPUT_SHAPES, changed, network
from experiments.theory.captures import CapturePolicy, Input
from experiments.theory.networks import prepared
from experiments.theory.operators import capture
from report.core.errors import MeasurementError
from report.core.records.operations import Network
from report.theory.conditions import Layout
from report.theory.networks import BATCH, CapturedNetwork, NetworkFile, Way, file_of

#: Networks of which papers need the layers alone.
_TRAINED: Final = ("ResNet-18", "ResNet-50", "MobileNetV2")
#: Further sizes of images, beside those that networks are made for.
_IMAGES: Final = {"ResNet-20": (224,), **dict.fromkeys(_TRAINED, (64,))}


def write_networks() -> None:
    """Capture every network at each of its sizes of images."""
    layouts: tuple[Layout, ...] = get_args(Layout)
    ways = tuple(starmap(Way, product(layouts, ("float32", "bfloat16"))))
    for name, (channels, extent, _) in INPUT_SHAPES.items():
        for image in (extent, *_IMAGES.get(name, ())):
            with torch.device("meta"):
                one = torch.empty((1, channels, image, image))
                layers = capture_layers(network(name).eval(), one)
            called = () if name in _TRAINED else ways
            if image == extent:
                changes = product(layouts, ("float32",), CHANGES.get(name, ()))
                called += tuple(starmap(Way, changes))
            networks = {way.key: _captured(name, image, way) for way in called}
            text = msgspec.json.encode(NetworkFile(layers, networks))
            file_of(name, image).write_bytes(gzip.compress(text, mtime=0))


def _captured(name: str, image: int, way: Way) -> Network:
    """Capture a network at the batch from which papers scale.

    Raises ``MeasurementError`` if its operators do not grow in proportion.
    """
    network, few = (at_batch(name, image, way, batch) for batch in (BATCH, 3))
    if CapturedNetwork(network).at(3) != few:
        raise MeasurementError(f"{name}: its operators do not grow in proportion to the batch.")
    return network


def at_batch(name: str, image: int, way: Way, batch: int) -> Network:
    """Capture a network at a batch."""
    last = way.layout == "channels_last"
    source = Input((batch, INPUT_SHAPES[name][0], image, image), channels_last=last)
    policy = CapturePolicy(autocast=None if way.precision == "float32" else way.precision)
    return capture(
        prepared(partial(changed, name, way.change), "float32", last), [source], policy=policy
    ).network
