"""The networks: their shapes, parameters and work, beside what was published of them."""

from __future__ import annotations

from report.evidence.reported import Cell as ReportedCell
from report.evidence.reported import Unreported
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.tables import Cell, Column, Table
from report.records.layers import Convolution, Layer, Linear
from report.studies.inference_memory.measured import Run
from report.theory.memory import activation_bytes
from report.theory.shapes import parameter_count
from report.theory.work import forward_macs

NO_SHAPES = Missing("no record holds the shapes of this network")


def network_layers(all_runs: tuple[Run, ...], network: str) -> tuple[Layer, ...]:
    """The layers of a network on its smallest images at its smallest batch, or none."""
    for run in all_runs:
        calls = [call for call in run.chosen(network=network) if call.tile is None]
        for call in sorted(calls, key=lambda call: (call.image, call.batch)):
            layers = run.layers(call.factors)
            if not isinstance(layers, Missing):
                return layers
    return ()


def network_table(inputs: Inputs, all_runs: tuple[Run, ...]) -> Table:
    """Depth, parameters and multiply-adds, own and published."""
    printed = inputs.reported.table("networks")
    names = [str(name) for name in printed.column("network")]
    rows = [
        (name, *_own(network_layers(all_runs, name)), *map(_published, published))
        for name, *published in zip(
            names, printed.column("parameters"), printed.column("macs"), strict=True
        )
    ]
    own = tuple(
        (
            *row[:4],
            row[6],
            row[4],
            row[7],
            row[5],
        )
        for row in rows
    )
    return Table(
        "tbl-networks",
        "The networks, computed from the shapes that ran and as published: layers with weights, "
        "parameters, multiply-adds of one image, and bytes of all maps that its layers write.",
        (
            Column("Network"),
            Column("Image"),
            Column("Layers", "1"),
            Column("Parameters", "1"),
            Column("Published", "1"),
            Column("Multiply-adds", "MAC", "MMAC"),
            Column("Published", "MAC", "MMAC"),
            Column("Maps", "B", "MB"),
        ),
        own,
        notes=(f"Published by: {_origins(inputs)}.",),
        sources=(inputs.reported_file, *(run.file for run in all_runs)),
        wide=True,
    )


def _own(layers: tuple[Layer, ...]) -> tuple[Cell, ...]:
    """Image, layers with weights, parameters, multiply-adds and bytes of maps, of one image."""
    if not layers:
        return ("", NO_SHAPES, NO_SHAPES, NO_SHAPES, NO_SHAPES)
    batch, *image = layers[0].input_shape
    weighted = sum(isinstance(layer, Convolution | Linear) for layer in layers)
    maps = sum(activation_bytes(layer) for layer in layers) // batch
    parameters = sum(map(parameter_count, layers))
    macs = forward_macs(layers) // batch
    return ("×".join(map(str, image)), weighted, parameters, macs, maps)


def _published(cell: ReportedCell) -> Cell:
    """A number printed in millions, in units of one."""
    if isinstance(cell, int | float):
        return round(cell * 1e6)
    return Missing(cell.missing if isinstance(cell, Unreported) else "not a number")


def _origins(inputs: Inputs) -> str:
    printed = inputs.reported.table("networks")
    by_origin: dict[str, list[str]] = {}
    for name, where in zip(printed.column("network"), printed.column("where"), strict=True):
        if where != "none":
            by_origin.setdefault(str(where), []).append(str(name))
    return "; ".join(f"{where} ({', '.join(names)})" for where, names in by_origin.items())
