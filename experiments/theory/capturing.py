"""Capture the operators of the studies' networks for papers: ``experiments theory --capture``."""

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
from report.theory.networks import BATCH, CapturedNetwork, NetworkFile, Variant, file_of

#: Networks of which papers read only the layers.
_TRAINED: Final = ("ResNet-18", "ResNet-50", "MobileNetV2")
#: Image sizes that are captured besides the one that a network is made for.
_MORE_IMAGES: Final = {"ResNet-20": (224,), **dict.fromkeys(_TRAINED, (64,))}


def write_networks() -> None:
    """Capture every network on each of its image sizes, and write a file for each size."""
    layouts: tuple[Layout, ...] = get_args(Layout)
    unchanged = tuple(starmap(Variant, product(layouts, ("float32", "bfloat16"))))
    for name, (channels, extent, _) in INPUT_SHAPES.items():
        for image in (extent, *_MORE_IMAGES.get(name, ())):
            with torch.device("meta"):
                inputs = torch.empty((1, channels, image, image))
                layers = capture_layers(network(name).eval(), inputs)
            variants = () if name in _TRAINED else unchanged
            if image == extent:
                changes = product(layouts, ("float32",), CHANGES.get(name, ()))
                variants += tuple(starmap(Variant, changes))
            networks = {variant.key: _captured(name, image, variant) for variant in variants}
            text = msgspec.json.encode(NetworkFile(layers, networks))
            file_of(name, image).write_bytes(gzip.compress(text, mtime=0))


def _captured(name: str, image: int, variant: Variant) -> Network:
    """Capture a network at ``BATCH`` images, from which papers scale to other batches.

    Raises ``MeasurementError`` if its operators do not grow in proportion.
    """
    captured, at_three = (at_batch(name, image, variant, batch) for batch in (BATCH, 3))
    if CapturedNetwork(captured).at(3) != at_three:
        raise MeasurementError(f"{name}: its operators do not grow in proportion to the batch.")
    return captured


def at_batch(name: str, image: int, variant: Variant, batch: int) -> Network:
    """Capture an inference of ``batch`` images by a variant of a network."""
    nhwc = variant.layout == "channels_last"
    source = Input((batch, INPUT_SHAPES[name][0], image, image), channels_last=nhwc)
    policy = CapturePolicy(autocast=None if variant.precision == "float32" else variant.precision)
    return capture(
        prepared(partial(changed, name, variant.change), "float32", nhwc), [source], policy=policy
    ).network
