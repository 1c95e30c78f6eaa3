"""The network that holds the layer: its shapes from the newest record."""

from __future__ import annotations

from typing import NamedTuple

from report.paper.findings import Inputs
from report.records.layers import Layer


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
