"""Spatial tiling: what halos cost by theory, and what tiles take in time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from figures.canvas import Drawing
from figures.scaling import Band, Scaling
from report.evidence.runs import remembered
from report.missing import Missing
from report.paper.declared import cells
from report.paper.findings import Figure
from report.paper.tables import Cell, Column, Table
from report.records.layers import Convolution, Layer
from report.statistics.estimates import Estimate
from report.studies.inference_memory.batches import Estimated, numbers, points
from report.studies.inference_memory.measured import Run, centre
from report.studies.inference_memory.subject import EXECUTION_NAMES, TILED, Call, Execution
from report.theory.liveness import INPUT, PARAMETERS, STATISTICS, Held
from report.theory.memory import output_bytes
from report.theory.tiling import Tiling, tiled

_MILLI, _MEGA, _PERCENT = 1e3, 1e-6, 100
#: What a block of the network is called by the first part of its layers' names.
_STAGE: Final = "stage"


@dataclass(frozen=True)
class Cost:
    """What theory says of a tiled forward pass beside the same pass in one piece.

    ``read`` and ``read_untiled`` are bytes that the tiled groups of layers read of their inputs,
    ``needed`` the most bytes that must be alive, workspaces left out.
    """

    tiles: int
    macs: int
    macs_untiled: int
    read: int
    read_untiled: int
    needed: int


@remembered
def tiled_calls(run: Run) -> tuple[Call, ...]:
    """Every tiled call."""
    return tuple(call for call in run.chosen() if call.tile is not None)


def untiled(call: Call) -> Call:
    """The same call in one piece."""
    return Call(call.network, call.image, call.batch, call.layout, call.precision)


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
        sum(item.macs for item in each),
        sum(item.macs_untiled for item in each),
        sum(item.read for item in each),
        sum(item.read_untiled for item in each),
        _needed(found, each, held),
    )


def _needed(found: Sequence[Sequence[Layer]], each: Sequence[Tiling], held: Sequence[Held]) -> int:
    """With layers one by one, what they need without tiles and a patch; else the largest group.

    A group needs its whole input and output, a patch, and what is there all the time.
    """
    if all(len(group) == 1 for group in found):
        return max(at.needed for at in held) + max(item.patch for item in each)
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
    if call.tile is None:
        return Missing("the call is not tiled")
    return cost(layers, call.execution, call.tile, held)


# -------------------------------------------------------------------------------------- tables


def tiling_table(run: Run) -> Table:
    """Theory and measurement of every tile size and form."""
    calls = tiled_calls(run)
    first = untiled(calls[0]) if calls else None
    rows = [_base_row(run, first)] if first else []
    rows += [_row(run, call) for call in sorted(calls, key=_by_form)]
    what = (
        f"{first.network} on images of {first.image} pixels, batch {first.batch}, " if first else ""
    )
    return Table(
        "tbl-tiling",
        f"Tiles of {what}on {run.label}. Theory: tiles, work and bytes read over those without "
        "tiles, and bytes that must be alive. Measured: time, time over that without tiles, share "
        "of the ceiling for the work without halos, and peak memory.",
        (
            Column("Patches through"),
            Column("Tile"),
            Column("Tiles", "1"),
            Column("Work", "1"),
            Column("Bytes read", "1"),
            Column("Needed", "B", "MB"),
            Column("Time", "s", "ms"),
            Column("Time ratio", "1"),
            Column("Share", "1", "%"),
            Column("Peak", "B", "MB"),
        ),
        tuple(rows),
        sources=(run.file,),
        wide=True,
    )


def _by_form(call: Call) -> tuple[int, int]:
    return TILED.index(call.execution), call.tile or 0


def _base_row(run: Run, call: Call) -> tuple[Cell, ...]:
    return cells(
        "whole maps",
        "none",
        1,
        1,
        1,
        run.needed(call),
        run.time(call),
        1,
        run.utilisation(call),
        run.peak(call),
    )


def _row(run: Run, call: Call) -> tuple[Cell, ...]:
    theory = call_cost(run, call)
    told: tuple[Cell, ...] = (theory,) * 4 if isinstance(theory, Missing) else _told(theory)
    return cells(
        EXECUTION_NAMES[call.execution],
        str(call.tile),
        *told,
        run.time(call),
        run.time_ratio(call, untiled(call)),
        run.utilisation(call),
        run.peak(call),
    )


def _told(theory: Cost) -> tuple[Cell, ...]:
    work, read = theory.macs / theory.macs_untiled, theory.read / theory.read_untiled
    return theory.tiles, 1 if work == 1 else work, 1 if read == 1 else read, theory.needed


# ------------------------------------------------------------------------------------- figures


def tiling_figure(run: Run) -> Figure:
    """Time, peak memory and utilisation over the tile size, a line a form."""
    panels = (
        _panel(run, run.time, _MILLI, "Time of a call (ms)"),
        _panel(run, run.peak, _MEGA, "Peak memory (MB)"),
        _panel(run, run.utilisation, _PERCENT, "Share of the ceiling (%)"),
    )
    return Figure(
        "fig-tiling",
        f"Time (left), peak memory (middle) and utilisation (right) over the tile size on "
        f"{run.label}; the line across is the call without tiles.",
        _alt(run),
        Drawing(panels, wide=True, height=2.4),
        (run.file,),
    )


def _panel(run: Run, quantity: Estimated, factor: float, label: str) -> Scaling:
    calls = tiled_calls(run)
    drawn = []
    for index, form in enumerate(TILED):
        of_form = [call for call in calls if call.execution == form]
        found = numbers({call.tile or 0: quantity(call) for call in of_form})
        if found:
            joined = len(found) == len(of_form)
            drawn.append(points(EXECUTION_NAMES[form], found, factor, index, joined=joined))
    tiles = tuple(float(t) for t in sorted({call.tile or 0 for call in calls}))
    return Scaling(
        "Tile (pixels)",
        label,
        tuple(drawn),
        bands=_base_band(run, quantity, factor),
        x_ticks=tiles,
        y_scale="linear",
        y_from_zero=True,
    )


def _base_band(run: Run, quantity: Estimated, factor: float) -> tuple[Band, ...]:
    calls = tiled_calls(run)
    base = numbers({0: quantity(untiled(calls[0]))}) if calls else {}
    found = base.get(0)
    if found is None:
        return ()
    if not isinstance(found, Estimate):
        found = Estimate(found, found, found, 1, 1.0)
    low, middle, high = (factor * end for end in (found.low, found.value, found.high))
    return (Band("whole maps", low, middle, high, 4),)


def _alt(run: Run) -> str:
    told = []
    for call in sorted(tiled_calls(run), key=_by_form):
        time, size = run.time(call), run.peak(call)
        if not time.missing and not size.missing:
            told.append(
                f"{EXECUTION_NAMES[call.execution]}, tile {call.tile}: "
                f"{centre(time) * _MILLI:.3g} ms, {centre(size) * _MEGA:.3g} MB."
            )
    return "Three panels over tile size. " + " ".join(told)
