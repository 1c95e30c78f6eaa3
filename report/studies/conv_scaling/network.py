"""The network that holds the layer: its shapes from the newest record, its table, its shares."""

from __future__ import annotations

from typing import Final

from report.missing import Missing
from report.paper.environments import NOT_PUBLISHED
from report.paper.findings import Inputs
from report.paper.tables import Cell, Column, Table
from report.paper.values import Value
from report.records.layers import Layer
from report.studies.conv_scaling.subject import subject
from report.theory.shapes import parameter_count
from report.theory.work import forward_macs, macs

NO_NETWORK: Final = Missing("no record holds the shapes of the network")
#: What the source's summary calls a kind of layer.
_NAMES: Final = {"conv2d": "Conv2d", "linear": "Linear", "dropout": "Dropout"}


def network_layers(inputs: Inputs) -> tuple[tuple[Layer, ...], str | None]:
    """The network's layers and the newest record that holds them; none without such a record."""
    for item in inputs.records:
        for case in item.record.cases:
            if case.factors.get("subject") == "network" and case.layers:
                return case.layers, item.file
    return (), None


def network_values(inputs: Inputs) -> tuple[Value, ...]:
    """The layer's share of the network, from the shapes that ran."""
    layers, file = network_layers(inputs)
    origin = (file,) if file else ()
    ours = subject(layers[0].input_shape[0] if layers else 1)
    parameters, work = sum(map(parameter_count, layers)), forward_macs(layers)
    return (
        Value(
            "network_parameters",
            "Parameters of the network",
            parameters or NO_NETWORK,
            "1",
            "sum over the recorded layers",
            origin,
            "exact",
        ),
        Value(
            "work_share",
            "The layer's share of the network's multiply-adds",
            macs(ours) / work if work else NO_NETWORK,
            "1",
            "MACs of the layer / MACs of all recorded layers",
            origin,
            "percent",
        ),
        Value(
            "parameter_share",
            "The layer's share of the network's parameters",
            parameter_count(ours) / parameters if parameters else NO_NETWORK,
            "1",
            "parameters of the layer / of all recorded layers",
            origin,
            "percent",
        ),
    )


def network(inputs: Inputs) -> Table:
    """The network that holds the layer: output shapes and parameters, own and reported."""
    printed = inputs.reported.table("summary")
    layers, file = network_layers(inputs)
    reported: list[tuple[object, object]] = list(
        zip(printed.column("layer"), printed.column("parameters"), strict=True)
    )
    note = "The source's summary lists only modules, so functions have no reported count."
    own: list[tuple[Cell, ...]] = [
        (*_described(layer), parameter_count(layer), _reported_count(layer, reported))
        for layer in layers
    ]
    alone = [(str(name), NO_NETWORK, NO_NETWORK, _cell(count)) for name, count in reported]
    return Table(
        "tbl-network",
        "The network around the layer: output shape for one image and number of parameters, "
        "computed from the shapes that ran and as the source prints them.",
        (
            Column("Layer"),
            Column("Output shape"),
            Column("Parameters", "1"),
            Column("Reported", "1"),
        ),
        tuple(own or alone),
        notes=(note,) if own else (),
        sources=(inputs.reported_file, *((file,) if file else ())),
    )


def _described(layer: Layer) -> tuple[str, str]:
    return layer.name, " × ".join(str(extent) for extent in layer.output_shape[1:])


def _reported_count(layer: Layer, reported: list[tuple[object, object]]) -> Cell:
    """The next unused reported row of the same kind of layer, in network order."""
    kind = _NAMES.get(str(type(layer).__struct_config__.tag), "-")
    for index, (name, count) in enumerate(reported):
        if str(name).startswith(kind):
            del reported[index]
            return _cell(count)
    return NOT_PUBLISHED


def _cell(value: object) -> Cell:
    return value if isinstance(value, int | float | str) else NOT_PUBLISHED
