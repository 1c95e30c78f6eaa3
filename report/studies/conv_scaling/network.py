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


def _parameters(network: Network) -> Quantity:
    count = sum(map(parameter_count, network.layers))
    return exact("parameters of the network", "1", count, network.file)


def _work_share(network: Network) -> Quantity:
    work = exact("multiply-adds of the network", "MAC", forward_macs(network.layers), network.file)
    images = exact("B", "1", network.layers[0].input_shape[0])
    return images * theory.multiply_adds(1) / work


NETWORK_VALUES: Final[dict[str, Callable[[Network], Quantity]]] = {
    "work_share": _work_share,
    "parameter_share": lambda network: theory.PARAMETERS / _parameters(network),
}


class _Row(NamedTuple):
    name: str
    shape: Cell
    parameters: Cell
    reported: Cell


def network_table(inputs: Inputs) -> Table:
    """The network that holds the layer: output shapes and parameters, own and reported."""
    printed = inputs.reported.table("summary")
    left: list[tuple[object, object]] = list(
        zip(printed.column("layer"), printed.column("parameters"), strict=True)
    )
    network = find_network(inputs)
    alone = [_Row(str(name), NO_NETWORK, NO_NETWORK, _cell(count)) for name, count in left]
    own = [_row(layer, left) for layer in network.layers] if network else []
    note = "The source's summary lists only modules, so functions have no reported count."
    return table(
        "tbl-network",
        own or alone,
        [
            Field("Layer", "", lambda row: row.name),
            Field("Output shape", "", lambda row: row.shape),
            Field("Parameters", "1", lambda row: row.parameters),
            Field("Reported", "1", lambda row: row.reported),
        ],
        notes=(note,) if own else (),
        sources=(inputs.reported_file, *([network.file] if network else ())),
    )


def _row(layer: Layer, left: list[tuple[object, object]]) -> _Row:
    shape = " × ".join(str(extent) for extent in layer.output_shape[1:])
    return _Row(layer.name, shape, parameter_count(layer), _reported_count(layer, left))


def _reported_count(layer: Layer, left: list[tuple[object, object]]) -> Cell:
    """The next unused reported row of the same kind of layer, in network order."""
    kind = _NAMES.get(str(type(layer).__struct_config__.tag), "-")
    for index, (name, count) in enumerate(left):
        if str(name).startswith(kind):
            del left[index]
            return _cell(count)
    return NOT_PUBLISHED


def _cell(value: object) -> Cell:
    return value if isinstance(value, int | float | str) else NOT_PUBLISHED
