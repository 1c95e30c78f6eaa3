"""Spatial tiling: what cutting maps into tiles costs in work.

A tile of t outputs along an axis reads ``(t - 1)S + D(K - 1) + 1`` inputs, so that neighbours read
a strip of inputs, the halo, twice.  Layer by layer the halo is only read again: each output is
still computed once.  Where a patch goes through several layers at once, the halo of the last layer
must be computed by the layer before it, that layer's own halo is added, and so on towards the
input: the work grows, and only patches are alive instead of whole maps (Alwani et al., MICRO 2016).

Nothing beyond the border of a map is read or computed, since padding is no data.  Maps are cut on
the output of the last layer, in squares of ``tile`` from the upper left corner; the last ones may
be smaller.  ``None`` stands for no tiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from report.errors import StudyError
from report.records.layers import (
    Activation,
    Addition,
    BatchNorm,
    Convolution,
    Dropout,
    Layer,
    PaddedShortcut,
    Pooling,
)
from report.theory.dataflow import sources
from report.theory.shapes import Axis, axes, elements
from report.theory.work import macs


@dataclass(frozen=True)
class Span:
    """The positions from ``start`` up to, not including, ``stop`` along an axis."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many positions."""
        return self.stop - self.start

    def hull(self, other: Span) -> Span:
        """The smallest span with all positions of both."""
        return Span(min(self.start, other.start), max(self.stop, other.stop))


@dataclass(frozen=True)
class Tiling:
    """What a forward pass in tiles does, beside what the same layers do in one piece.

    ``macs`` are multiply-adds.
    """

    macs: int
    macs_untiled: int


#: The spans of one tensor along the rows and along the columns, one a tile.
_Spans: TypeAlias = tuple[tuple[Span, ...], tuple[Span, ...]]


def cut(extent: int, tile: int | None) -> tuple[Span, ...]:
    """``extent`` positions in pieces of ``tile``; raises ``StudyError`` for a tile below 1."""
    if tile is None:
        return (Span(0, extent),)
    if tile < 1:
        raise StudyError(f"tile {tile}: a tile has at least one position; give a positive number.")
    return tuple(Span(start, min(start + tile, extent)) for start in range(0, extent, tile))


def input_extent(axis: Axis, outputs: int) -> int:
    """Inputs that ``outputs`` neighbouring positions look at, padding counted."""
    return (outputs - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1


def input_span(axis: Axis, output: Span) -> Span:
    """The inputs that the positions ``output`` look at, those inside the map.

    At least one position, so that a patch over nothing but padding is still a patch.
    """
    start = output.start * axis.stride - axis.padding
    stop = start + input_extent(axis, output.size)
    first = min(max(start, 0), axis.size - 1)
    return Span(first, max(min(stop, axis.size), first + 1))


def tiled(layers: Sequence[Layer], tile: int | None) -> Tiling:
    """``layers`` one after another on each tile of the last one's output.

    A single layer is the tiling of that layer; several are a fused patch.  Raises ``StudyError``
    for a layer that has no maps to cut, such as a linear one.
    """
    if not layers:
        raise StudyError("tiling: there are no layers to tile; give at least one.")
    _check(layers)
    read = sources(layers)
    patches, whole = _needed(layers, read, tile), _needed(layers, read, None)
    return Tiling(macs=_macs(layers, patches), macs_untiled=_macs(layers, whole))


def _check(layers: Sequence[Layer]) -> None:
    for layer in layers:
        cuttable = isinstance(
            layer,
            Convolution | Pooling | BatchNorm | Activation | Addition | PaddedShortcut | Dropout,
        )
        transposed = isinstance(layer, Convolution) and layer.transposed
        if not cuttable or transposed or len(layer.output_shape) != 4:
            raise StudyError(
                f"layer {layer.name}: it cannot be computed in spatial tiles; leave it out of the "
                "layers that are tiled."
            )


def _needed(
    layers: Sequence[Layer], read: Sequence[tuple[int, ...]], tile: int | None
) -> dict[int, _Spans]:
    """For each layer's output, and the input of all, the spans that every tile needs."""
    rows, columns = (cut(extent, tile) for extent in layers[-1].output_shape[2:])
    needed: dict[int, _Spans] = {len(layers) - 1: (rows, columns)}
    for number in reversed(range(len(layers))):
        looked_at = _looked_at(layers[number], needed[number])
        for source in read[number]:
            before = needed.get(source, looked_at)
            needed[source] = (_hulls(before[0], looked_at[0]), _hulls(before[1], looked_at[1]))
    return needed


def _hulls(left: Sequence[Span], right: Sequence[Span]) -> tuple[Span, ...]:
    return tuple(a.hull(b) for a, b in zip(left, right, strict=True))


def _looked_at(layer: Layer, output: _Spans) -> _Spans:
    rows, columns = (
        tuple(input_span(axis, span) for span in spans)
        for axis, spans in zip(_axes(layer), output, strict=True)
    )
    return rows, columns


def _axes(layer: Layer) -> tuple[Axis, Axis]:
    """The windows of a layer; a shortcut looks at every stride-th position, others at each."""
    if isinstance(layer, Convolution | Pooling):
        return axes(layer)
    strides = layer.stride if isinstance(layer, PaddedShortcut) else (1, 1)
    rows, columns = layer.input_shape[2:]
    return Axis(rows, 1, strides[0], 0, 1), Axis(columns, 1, strides[1], 0, 1)


def _positions(spans: _Spans) -> int:
    """Positions of all tiles: every span of rows meets every span of columns."""
    rows, columns = (sum(span.size for span in axis) for axis in spans)
    return rows * columns


def _macs(layers: Sequence[Layer], needed: dict[int, _Spans]) -> int:
    """Every position of a map has the same number of multiply-adds."""
    return sum(
        macs(layer) // elements(layer.output_shape[2:]) * _positions(needed[number])
        for number, layer in enumerate(layers)
    )
