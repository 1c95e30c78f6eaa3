"""Spatial tiling: what halos cost by theory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from report.evidence.remembered import remembered
from report.missing import Missing
from report.quantity.expression import Quantity, absent, recorded
from report.records.layers import Convolution, Layer
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import Call, Execution
from report.theory.tiling import tiled

#: What a block of the network is called by the first part of its layers' names.
_STAGE: Final = "stage"


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


@remembered
def tiled_work(run: Run, call: Call) -> Quantity:
    """Multiply-adds of a tiled call over those without tiles."""
    layers = run.layers(call.factors)
    if isinstance(layers, Missing):
        return absent("work with tiles / work without", "1", layers.reason)
    assert call.tile is not None, call
    each = [tiled(group, call.tile) for group in groups(layers, call.execution)]
    work = sum(item.macs for item in each) / sum(item.macs_untiled for item in each)
    return recorded("work with tiles / work without", "1", work, run.file)
