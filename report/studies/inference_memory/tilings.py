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
from report.theory.shapes import Axis, axes, elements
from report.theory.work import macs

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
    each = groups(layers, call.execution)
    work = sum(patched(of, call.tile) for of in each) / sum(patched(of, None) for of in each)
    return recorded("work with tiles / work without", "1", work, run.file)


def patched(layers: Sequence[Layer], tile: int | None) -> int:
    """Multiply-adds of convolutions one after the other on each tile of the last one's output.

    A tile of t outputs along an axis reads ``(t - 1)S + D(K - 1) + 1`` inputs, so that neighbours
    share a strip of inputs, the halo.  Where a patch goes through several convolutions, each
    computes the halo of the next one too (Alwani et al., MICRO 2016).  Nothing beyond the border of
    a map is read or computed; what goes around convolutions needs no more than they do.  ``None``
    stands for no tiling.
    """
    convolutions = [layer for layer in layers if isinstance(layer, Convolution)]
    extents = convolutions[-1].output_shape[2:]
    needed = [[range(n)[at : at + (tile or n)] for at in range(0, n, tile or n)] for n in extents]
    work = 0
    for layer in reversed(convolutions):
        rows, columns = (sum(map(len, spans)) for spans in needed)
        work += macs(layer) // elements(layer.output_shape[2:]) * rows * columns
        needed = [
            [_read(axis, span) for span in spans]
            for axis, spans in zip(axes(layer), needed, strict=True)
        ]
    return work


def _read(axis: Axis, outputs: range) -> range:
    """The inputs inside the map that neighbouring outputs look at, at least one."""
    start = outputs.start * axis.stride - axis.padding
    stop = start + (len(outputs) - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1
    first = min(max(start, 0), axis.size - 1)
    return range(first, max(min(stop, axis.size), first + 1))
