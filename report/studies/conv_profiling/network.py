"""The network around the layer: its table beside the source's summary, and the layer's shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from report.missing import Missing
from report.paper.environments import NOT_PUBLISHED
from report.paper.findings import Inputs
from report.paper.tables import Cell, Column, Table
from report.quantity.expression import Quantity, absent, exact
from report.records.layers import Convolution, Dropout, Layer, Linear
from report.studies.conv_profiling import theory
from report.studies.conv_profiling.measured import Run
from report.theory.shapes import parameter_count
from report.theory.work import forward_macs, macs

NO_NETWORK: Final = Missing("no record holds the shapes of the network")
#: The kinds of layers that the source's summary lists.
_LISTED: Final = (Convolution, Linear, Dropout)


def network_table(inputs: Inputs, run: Run | None) -> Table:
    """Output shapes, parameters and multiply-adds of one image, and the source's parameters."""
    layers = run.network if run else ()
    printed = inputs.reported.table("summary")
    names, counts = printed.column("layer"), printed.column("parameters")
    left: list[object] = list(counts)
    rows: list[tuple[Cell, ...]] = [
        (*_described(layer), _reported(layer, left)) for layer in layers
    ]
    if not rows:
        alone = zip(names, counts, strict=True)
        rows = [(str(name), *(NO_NETWORK,) * 3, _cell(count)) for name, count in alone]
    return Table(
        "tbl-network",
        "",
        (
            Column("Layer"),
            Column("Output shape"),
            Column("Parameters", "1"),
            Column("Work", "MAC"),
            Column("Source", "1"),
        ),
        tuple(rows),
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


def _of_network(get: Callable[[Run], Quantity]) -> Callable[[Run], Quantity]:
    """Missing for a run that holds no shapes of the network."""
    return lambda run: get(run) if run.network else absent("network", "1", NO_NETWORK.reason)


def _parameters(run: Run) -> Quantity:
    count = sum(map(parameter_count, run.network))
    return exact("parameters of all recorded layers", "1", count, run.file)


def _work(run: Run) -> Quantity:
    return exact("multiply-adds of all recorded layers", "MAC", forward_macs(run.network), run.file)


#: The network, and the layer's share of it, from the shapes that ran.
VALUES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "network_parameters": _of_network(_parameters),
    "network_macs": _of_network(_work),
    "work_share": _of_network(lambda run: theory.MULTIPLY_ADDS / _work(run)),
    "parameter_share": _of_network(lambda run: theory.PARAMETERS / _parameters(run)),
}
