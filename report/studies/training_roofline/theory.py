"""Theory of a training step: work, traffic by two models, and what must be alive in memory."""

from __future__ import annotations

from functools import cache
from typing import Final, Literal, TypeAlias

from report.evidence.remembered import known
from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import counted_in, flops
from report.records.layers import Layer
from report.studies.training_roofline.subject import IMAGE
from report.theory.networks import Way, captured, layers_of
from report.theory.roofline import (
    at_batch,
    cached_step_load,
    step_load,
    training_loads,
    update_load,
)
from report.theory.shapes import parameter_count
from report.theory.training_memory import Categories, categories
from report.theory.work import forward_macs, training_macs

#: Of traffic: each layer reads and writes its tensors once, or only what outlives a step moves.
Model: TypeAlias = Literal["layers", "cache"]

#: The batch size whose intensities the source prints for every network.
SOURCE_BATCH: Final = 128


@cache
def shapes(network: str, batch: int = 1) -> tuple[Layer, ...]:
    """The layers of a network on images of the source's size."""
    return at_batch(layers_of(network, IMAGE), batch)


@cache
def parameters(network: str) -> Quantity:
    """All trained numbers."""
    return exact(f"parameters of {network}", "1", sum(map(parameter_count, shapes(network))))


@cache
def multiply_adds(network: str) -> Quantity:
    """Those of a forward pass of one image (MAC)."""
    macs = counted_in("MAC", exact("multiply-adds", "1", forward_macs(shapes(network))))
    return named(f"multiply-adds of {network}", macs)


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
def least_time(network: str, batch: int, peak: float, bandwidth: float) -> Quantity:
    """The time (s) of a training step whose layers all run at the nearer of their roofs.

    ``peak`` is in FLOP/s and ``bandwidth`` in B/s; the update of the parameters moves bytes alone.
    """
    layers = shapes(network, batch)
    seconds = sum(max(e.flops / peak, e.bytes / bandwidth) for e in training_loads(layers))
    update = update_load(layers).bytes / bandwidth
    return exact(f"least time of {network} at batch {batch}", "s", seconds + update)


@cache
def memory(network: str, batch: int) -> Categories:
    """What a training step holds on a GPU, by category."""
    found = known(captured(network, IMAGE, Way("training")))
    return categories(found, batch, on_host=False)


def alive(network: str, batch: int) -> Quantity:
    """Bytes that are alive when the forward pass ends: what no eager step can do without."""
    return exact(f"alive of {network} at {batch}", "B", memory(network, batch).before_backward)


def largest_batch(network: str, limit: int) -> Quantity:
    """The largest batch of which that many bytes hold at least what is alive."""
    one, two = (memory(network, batch).before_backward for batch in (1, 2))
    batch = (limit - one) // (two - one) + 1
    return exact(f"largest batch of {network}", "1", batch)
