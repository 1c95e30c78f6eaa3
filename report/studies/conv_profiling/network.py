"""The network around the layer: its table beside the source's summary, and the layer's shares."""

from __future__ import annotations

from typing import Final

from report.missing import Missing
from report.paper.environments import NOT_PUBLISHED
from report.paper.findings import Inputs
from report.paper.tables import Cell, Column, Table
from report.paper.values import Value
from report.records.layers import Convolution, Dropout, Layer, Linear
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.subject import BASE
from report.studies.conv_profiling.values import declared, known
from report.theory.shapes import parameter_count
from report.theory.work import forward_macs, macs

NO_NETWORK: Final = Missing("no record holds the shapes of the network")
#: The kinds of layers that the source's summary lists.
_LISTED: Final = (Convolution, Linear, Dropout)


def table(inputs: Inputs, run: Run | None) -> Table:
    """Output shapes, parameters and multiply-adds of one image, and the source's parameters."""
    layers = run.network if run else ()
    printed = inputs.reported.table("summary")
    names, counts = printed.column("layer"), printed.column("parameters")
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    if layers:
        left: list[object] = list(counts)
        rows = tuple((*_described(layer), _reported(layer, left)) for layer in layers)
        notes = ("The source's summary lists modules only, so functions have no printed count.",)
    else:
        rows = tuple(
            (str(name), NO_NETWORK, NO_NETWORK, NO_NETWORK, _cell(count))
            for name, count in zip(names, counts, strict=True)
        )
    return Table(
        "tbl-network",
        "The network around the layer for one image: output shapes, parameters and multiply-adds "
        "of the layers that ran, and the parameters as the source's summary prints them.",
        (
            Column("Layer"),
            Column("Output shape"),
            Column("Parameters", "1"),
            Column("Work", "MAC"),
            Column("Reported", "1"),
        ),
        rows,
        notes=notes,
        sources=(inputs.reported_file, *((run.file,) if run and layers else ())),
    )


def _described(layer: Layer) -> tuple[Cell, ...]:
    shape = " × ".join(str(extent) for extent in layer.output_shape[1:])
    return layer.name, shape, parameter_count(layer), macs(layer)


def _reported(layer: Layer, left: list[object]) -> Cell:
    """The next printed count, for a layer of a kind that the summary lists."""
    if not isinstance(layer, _LISTED) or not left:
        return NOT_PUBLISHED
    return _cell(left.pop(0))


def _cell(value: object) -> Cell:
    return value if isinstance(value, int | float | str) else NOT_PUBLISHED


def values(run: Run | None) -> tuple[Value, ...]:
    """The layer's share of the network, from the shapes that ran."""
    layers = run.network if run else ()
    file = run.file if run and layers else ""
    here = " of all recorded layers"
    parameters = known(
        f"parameters{here}", sum(map(parameter_count, layers)) or NO_NETWORK, "1", file
    )
    work = known(f"multiply-adds{here}", forward_macs(layers) or NO_NETWORK, "MAC", file)
    layer = BASE.layer(1)
    found = {
        "network_parameters": parameters,
        "network_macs": work,
        "work_share": known("multiply-adds of the layer", macs(layer), "MAC") / work,
        "parameter_share": known("parameters of the layer", parameter_count(layer)) / parameters,
    }
    return tuple(declared(found))
