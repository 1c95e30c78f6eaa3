"""Spatial tiling: what halos cost by theory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from report.evidence.remembered import remembered
from report.missing import Missing
from report.records.layers import Convolution, Layer
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import Call, Execution
from report.theory.liveness import INPUT, PARAMETERS, STATISTICS, Held
from report.theory.memory import output_bytes
from report.theory.tiling import Tiling, tiled

#: What a block of the network is called by the first part of its layers' names.
_STAGE: Final = "stage"


@dataclass(frozen=True)
class Cost:
    """What theory says of a tiled forward pass.

    ``work`` and ``read`` are multiply-adds, and bytes that the tiled groups of layers read of
    their inputs, over those without tiles; ``needed`` the most bytes that must be alive,
    workspaces left out.
    """

    tiles: int
    work: float
    read: float
    needed: int


def groups(layers: Sequence[Layer], execution: Execution) -> tuple[tuple[Layer, ...], ...]:
    """The layers that go through patches together.

    One convolution at a time; or the stem and each residual block; or the stem with the first
    stage and each further stage.  Layers behind the last block are not tiled.
    """
    if execution == "tiled_layers":
        return tuple((layer,) for layer in layers if isinstance(layer, Convolution))
    last = max(i for i, layer in enumerate(layers) if layer.name.startswith(_STAGE))
    key = _block if execution == "tiled_blocks" else _stage
    return tuple(tuple(group) for _, group in groupby(layers[: last + 1], key))


def _block(layer: Layer) -> str:
    return layer.name.partition(".")[0] if layer.name.startswith(_STAGE) else ""


def _stage(layer: Layer) -> str:
    return layer.name.partition("_")[0] if layer.name.startswith(_STAGE) else f"{_STAGE}1"


def cost(layers: Sequence[Layer], execution: Execution, tile: int, held: Sequence[Held]) -> Cost:
    """What theory says of a tiled execution; ``held`` is what is alive without tiles."""
    found = groups(layers, execution)
    each = [tiled(group, tile) for group in found]
    return Cost(
        sum(item.tiles for item in each),
        sum(item.macs for item in each) / sum(item.macs_untiled for item in each),
        sum(item.read for item in each) / sum(item.read_untiled for item in each),
        _needed(found, each, held),
    )


def _needed(found: Sequence[Sequence[Layer]], each: Sequence[Tiling], held: Sequence[Held]) -> int:
    """With layers one by one, what each needs, and its patch; else the largest group.

    A group needs its whole input and output, a patch, and what is there all the time.
    """
    if all(len(group) == 1 for group in found):
        patches = {group[0].name: item.patch for group, item in zip(found, each, strict=True)}
        return max(at.needed + patches.get(at.layer, 0) for at in held)
    always = sum(map(held[0].amount, (PARAMETERS, STATISTICS, INPUT)))
    sizes = [
        (item.read_untiled if number else 0) + output_bytes(group[-1]) + item.patch
        for number, (group, item) in enumerate(zip(found, each, strict=True))
    ]
    return always + max(sizes)


@remembered
def call_cost(run: Run, call: Call) -> Cost | Missing:
    """What theory says of a tiled call."""
    layers, held = run.layers(call.factors), run.held(call)
    if isinstance(layers, Missing):
        return layers
    if isinstance(held, Missing):
        return held
    assert call.tile is not None, call
    return cost(layers, call.execution, call.tile, held)
