"""The table of the networks, from the shapes that ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from report.evidence.reported import Cell as ReportedCell
from report.evidence.reported import Unreported
from report.missing import Missing
from report.paper.declared import Field, table
from report.paper.findings import Inputs
from report.paper.tables import Cell, Table
from report.records.layers import Convolution, Layer, Linear
from report.studies.inference_memory.measured import Run
from report.theory.memory import activation_bytes
from report.theory.shapes import parameter_count
from report.theory.work import forward_macs


@dataclass(frozen=True)
class _Network:
    """A network as it ran and as published."""

    name: str
    layers: tuple[Layer, ...]
    parameters: Cell
    macs: Cell

    def own(self, get: Callable[[tuple[Layer, ...]], Cell]) -> Cell:
        """What ``get`` makes of the layers that ran."""
        return get(self.layers) if self.layers else _NO_SHAPES


_NO_SHAPES: Final = Missing("no record holds the shapes of this network")


def network_layers(runs: Sequence[Run], network: str) -> tuple[Layer, ...]:
    """The layers of a network on its smallest images at its smallest batch, or none."""
    for run in runs:
        calls = [call for call in run.chosen(network=network) if call.tile is None]
        for call in sorted(calls, key=lambda call: (call.image, call.batch)):
            layers = run.layers(call.factors)
            if not isinstance(layers, Missing):
                return layers
    return ()


def network_table(inputs: Inputs, runs: Sequence[Run]) -> Table:
    """Depth, parameters and multiply-adds, own and published."""
    printed = inputs.reported.table("networks")
    names, columns = printed.column("network"), map(printed.column, ("parameters", "macs"))
    rows = [
        _Network(str(name), network_layers(runs, str(name)), _millions(p), _millions(m))
        for name, p, m in zip(names, *columns, strict=True)
    ]
    return table(
        "tbl-networks",
        rows,
        [
            Field("Network", "", lambda row: row.name),
            Field("Image", "", lambda row: _image(row.layers)),
            Field("Layers", "1", lambda row: row.own(_weighted)),
            Field("Parameters", "1", lambda row: row.own(lambda ls: sum(map(parameter_count, ls)))),
            Field("Published", "1", lambda row: row.parameters),
            Field("Multiply-adds", "MAC", lambda row: row.own(_macs), "MMAC"),
            Field("Published ", "MAC", lambda row: row.macs, "MMAC"),
            Field("Maps", "B", lambda row: row.own(_maps), "MB"),
        ],
        notes=(f"Published by: {_origins(inputs)}.",),
        sources=(inputs.reported_file, *(run.file for run in runs)),
        wide=True,
    )


def _image(layers: tuple[Layer, ...]) -> str:
    return "×".join(map(str, layers[0].input_shape[1:])) if layers else ""


def _weighted(layers: tuple[Layer, ...]) -> int:
    return sum(isinstance(layer, Convolution | Linear) for layer in layers)


def _macs(layers: tuple[Layer, ...]) -> int:
    return forward_macs(layers) // layers[0].input_shape[0]


def _maps(layers: tuple[Layer, ...]) -> int:
    return sum(map(activation_bytes, layers)) // layers[0].input_shape[0]


def _millions(cell: ReportedCell) -> Cell:
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
