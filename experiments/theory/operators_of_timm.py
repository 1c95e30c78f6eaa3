"""Operators of timm's CNNs for papers: ``python -m experiments.theory.operators_of_timm NAME…``.

Captures each network that is named on one image of its published size (some seconds), and puts it
into ``data/operators-of-timm.jsonl.gz``.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from experiments.harness.code import ROOT
from experiments.harness.operators import Input, built, capture
from experiments.theory.networks import network
from report.errors import MeasurementError
from report.records import OPERATORS
from report.records.network_operators import (
    NetworkOperators,
    Operator,
    Read,
    read_operators,
    write_operators,
)
from report.records.operations import Network, Tensor
from report.theory.operators import load, operands

#: Elements of the storages that were touched, the latest last.
Touched: TypeAlias = OrderedDict[int, int]


def captured(name: str) -> NetworkOperators:
    """A network of timm; raises ``MeasurementError`` where it cannot be captured."""
    named = network(f"timm:{name}")
    module = built(named.build)
    module.requires_grad_(False)  # so that no operator is captured for a gradient
    found = capture(lambda: module, [Input((1, *named.image))]).network
    return NetworkOperators(
        network=name,
        side=named.image[1],
        parameters=found.parameter_count,
        operators=tuple(operators(found)),
    )


def operators(found: Network) -> Iterator[Operator]:
    """The operators that move anything, with how far back each tensor was last touched."""
    kept = {t.storage for t in (*found.parameters.values(), *found.buffers.values())}
    touched: Touched = OrderedDict()
    for each in found.operators:
        known = load(each)
        if known is None or not known.bytes:
            continue
        reads, writes = operands(each)
        reused = [t for t in reads if t.storage not in kept]
        yield Operator(
            each.base,
            known.multiply_adds,
            sum(t.distinct for t in reads if t.storage in kept),
            tuple(Read(t.distinct, _distance(t, touched)) for t in reused),
            sum(t.distinct for t in writes),
        )
        _touch((*reused, *writes), touched)


def _distance(tensor: Tensor, touched: Touched) -> int:
    """Elements touched since ``tensor`` was, itself among them; -1 where it never was."""
    if tensor.storage not in touched:
        return -1
    total = 0
    for storage in reversed(touched):
        total += touched[storage]
        if storage == tensor.storage:
            break
    return total


def _touch(tensors: Iterable[Tensor], touched: Touched) -> None:
    for tensor in tensors:
        touched.pop(tensor.storage, None)
        touched[tensor.storage] = tensor.distinct


def main() -> None:
    """Capture what is named, and write the file after each network."""
    path = ROOT / "data" / OPERATORS
    found = {each.network: each for each in read_operators(path)}
    for name in sys.argv[1:]:
        try:
            found[name] = captured(name)
        except MeasurementError as error:
            print(f"{name}: {error}")
            continue
        write_operators(path, found.values())
        print(f"{name}: {len(found[name].operators)} operators")


if __name__ == "__main__":
    main()
