"""What theory says of a call: its peak, the batch that fits a limit, and what tiles compute."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Final

from report.missing import Missing
from report.records.layers import Convolution, Layer
from report.records.record import Environment
from report.studies.inference_memory.subject import Call, Limit
from report.theory.conditions import Conditions, conditions_of
from report.theory.fits import Fits, scaling, searched
from report.theory.network import Theory
from report.theory.networks import Captured, Way, captured, layers_of
from report.theory.peaks import Peak, peak
from report.theory.shapes import Axis, axes, elements
from report.theory.work import macs

#: What cuBLAS keeps from its first product on, on an H100: 32 MiB, and 1 MiB of cuBLASLt's.
KEPT: Final = (2**25, 2**20)
#: By how much a call may exceed a limit (B), for the ends of pages: what the experiment allows.
ROOM: Final = 131_072
_STAGE: Final = "stage"


def network(call: Call, like: Sequence[Layer] = ()) -> Captured | Missing:
    """The operators of an eager call; missing where other layers ran than were captured."""
    way = Way("inference", call.layout, call.precision)
    return captured(call.network, call.image, way, like=like)


def predicted(call: Call, like: Sequence[Layer], environment: Environment) -> Peak | Missing:
    """What is alive at the peak of an eager call on a processor."""
    found = network(call, like)
    return (
        found if isinstance(found, Missing) else peak(found, call.batch, conditions_of(environment))
    )


@cache
def fits(limit: Limit, conditions: Conditions) -> Fits | Missing:
    """What ``--fits`` says of a network in float32 under a limit, on a processor."""
    found = network(Call(limit.network, limit.image, 1, limit.layout))
    if isinstance(found, Missing):
        return found
    return searched(scaling(Theory(found.network, conditions)), limit.bytes)


# ------------------------------------------------------------------------------------------ tiles


def halo(call: Call) -> float:
    """Multiply-adds of a call that goes stage by stage through tiles, over those without tiles.

    The first stage begins with the stem; layers behind the last one are not tiled.
    """
    layers = layers_of(call.network, call.image)
    last = max(i for i, layer in enumerate(layers) if layer.name.startswith(_STAGE))
    stages = [tuple(group) for _, group in groupby(layers[: last + 1], _stage)]
    return sum(patched(of, call.tile) for of in stages) / sum(patched(of, None) for of in stages)


def _stage(layer: Layer) -> str:
    return layer.name.partition("_")[0] if layer.name.startswith(_STAGE) else f"{_STAGE}1"


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
