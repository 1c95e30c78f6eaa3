"""Theory of a training step: work, traffic by two models, and what must be alive in memory."""

from __future__ import annotations

import math
from functools import cache
from typing import Final, Literal, TypeAlias

from report.missing import Missing
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.operations import counted_in, flops
from report.records.layers import Layer
from report.studies.training_roofline.subject import IMAGE
from report.theory.networks import Way, captured, layers_of
from report.theory.peaks import categories
from report.theory.roofline import (
    at_batch,
    cached_step_load,
    step_load,
    training_loads,
    update_load,
)
from report.theory.work import training_macs

#: Of traffic: each layer reads and writes its tensors once, or only what outlives a step moves.
Model: TypeAlias = Literal["layers", "cache"]

#: The batch size whose intensities the source prints for every network.
SOURCE_BATCH: Final = 128


@cache
def shapes(network: str, batch: int = 1) -> tuple[Layer, ...]:
    """The layers of a network on images of the source's size."""
    return at_batch(layers_of(network, IMAGE), batch)


@cache
def work(network: str) -> Quantity:
    """Work of a training step on one image (FLOP)."""
    macs = exact("multiply-adds of a step", "1", training_macs(shapes(network)))
    return named(f"work of {network}", flops(counted_in("MAC", macs)))


@cache
def traffic(network: str, batch: int = SOURCE_BATCH, model: Model = "layers") -> Quantity:
    """Bytes that a training step moves for one image."""
    load = (step_load if model == "layers" else cached_step_load)(shapes(network, batch))
    return exact(f"traffic of {network}", "B", load.bytes) / exact(f"batch {batch}", "1", batch)


def intensity(network: str, batch: int = SOURCE_BATCH, model: Model = "layers") -> Quantity:
    """Work over traffic (FLOP/B)."""
    return work(network) / traffic(network, batch, model)


@cache
def least_time(network: str, batch: int, peak: float, bandwidth: float) -> tuple[Quantity, float]:
    """The time (s) of a training step whose layers all run at the nearer of their roofs.

    With it the share of that time in which memory is the nearer one.  ``peak`` is in FLOP/s and
    ``bandwidth`` in B/s; the update of the parameters moves bytes alone.
    """
    layers = shapes(network, batch)
    loads = (*training_loads(layers), update_load(layers))
    arithmetic = [load.flops / peak for load in loads]
    moving = [load.bytes / bandwidth for load in loads]
    seconds = sum(map(max, arithmetic, moving))
    memory = sum(b for a, b in zip(arithmetic, moving, strict=True) if b > a)
    return exact(f"least time of {network} at batch {batch}", "s", seconds), memory / seconds


def largest_map(network: str) -> Quantity:
    """Bytes of the largest output of a layer at the source's batch, in float32."""
    outputs = (math.prod(layer.output_shape) for layer in shapes(network, SOURCE_BATCH))
    return exact(f"largest map of {network}", "B", 4 * max(outputs))


def alive(network: str, batch: int) -> Quantity:
    """Bytes that are alive when the forward pass ends: what no eager step can do without."""
    found = captured(network, IMAGE, Way("training"))
    if isinstance(found, Missing):
        return absent(f"alive of {network} at {batch}", "B", found.reason)
    held = categories(found, batch, on_host=False).before_backward
    return exact(f"alive of {network} at {batch}", "B", held)
