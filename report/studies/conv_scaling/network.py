"""The network that holds the layer: its shapes from the newest record, its table, its shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from report.missing import Missing
from report.paper.declared import Field, table
from report.paper.environments import NOT_PUBLISHED
from report.paper.findings import Inputs
from report.paper.tables import Cell, Table
from report.quantity.expression import Quantity, exact
from report.records.layers import Layer
from report.studies.conv_scaling import theory
from report.theory.shapes import parameter_count
from report.theory.work import forward_macs

NO_NETWORK: Final = Missing("no record holds the shapes of the network")
#: What the source's summary calls a kind of layer.
_NAMES: Final = {"conv2d": "Conv2d", "linear": "Linear", "dropout": "Dropout"}


class Network(NamedTuple):
    """The layers that ran, and the record that holds them."""

    layers: tuple[Layer, ...]
    file: str


def find_network(inputs: Inputs) -> Network | None:
    """The network of the newest record that holds one."""
    for item in inputs.records:
        for case in item.record.cases:
            if case.factors.get("subject") == "network" and case.layers:
                return Network(case.layers, item.file)
    return None


def _work_share(network: Network) -> Quantity:
    work = exact("multiply-adds of the network", "MAC", forward_macs(network.layers), network.file)
    return exact("B", "1", network.layers[0].input_shape[0]) * theory.multiply_adds(1) / work


def _parameter_share(network: Network) -> Quantity:
    count = sum(map(parameter_count, network.layers))
    return theory.PARAMETERS / exact("parameters of the network", "1", count, network.file)


NETWORK_VALUES: Final[dict[str, Callable[[Network], Quantity]]] = {
    "work_share": _work_share,
    "parameter_share": _parameter_share,
}


def network_table(inputs: Inputs, network: Network) -> Table:
    """Output shapes, multiply-adds and parameters of the layers, and the reported parameters."""
    printed = inputs.reported.table("summary")
    left: list[tuple[object, object]] = list(
        zip(printed.column("layer"), printed.column("parameters"), strict=True)
    )
    reported = [_reported(layer, left) for layer in network.layers]
    return table(
        "tbl-network",
        list(zip(network.layers, reported, strict=True)),
        [
            Field("Layer", "", lambda row: row[0].name),
            Field("Output shape", "", lambda row: " × ".join(map(str, row[0].output_shape[1:]))),
            Field("Multiply-adds", "MAC", lambda row: forward_macs([row[0]])),
            Field("Parameters", "1", lambda row: parameter_count(row[0])),
            Field("Reported", "1", lambda row: row[1]),
        ],
        notes=("The source's summary lists only modules, so functions have no reported count.",),
        sources=(inputs.reported_file, network.file),
    )


def _reported(layer: Layer, left: list[tuple[object, object]]) -> Cell:
    """The next unused reported row of the same kind of layer, in network order."""
    kind = _NAMES.get(str(type(layer).__struct_config__.tag), "-")
    for index, (name, count) in enumerate(left):
        if str(name).startswith(kind):
            del left[index]
            return count if isinstance(count, int | float | str) else NOT_PUBLISHED
    return NOT_PUBLISHED
