"""The peak of an inference taken apart by why its tensors are alive, and what no way can spare.

Eager PyTorch without gradients frees a tensor when nothing refers to it any more.  At its peak
parameters, running statistics and the network's input are alive, which the caller holds; what the
operator reads and writes; what later operators read; the arguments of the modules around it, which
their calls keep until they return; what autocast has copied; and the operator's own workspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from report.core.records.operations import Network, Operator
from report.theory.conditions import NOTHING, Conditions, Workspace
from report.theory.convolution_workspaces import ALLOCATED, PENDING
from report.theory.networks import Captured
from report.theory.reconciliation import Term
from report.theory.terms import SHAPES
from report.theory.timeline import resident
from report.theory.workspaces import takes_nothing, workspace

PARAMETERS: Final = "Parameters"
STATISTICS: Final = "Running statistics"
INPUT: Final = "Network input"
READ: Final = "Layer input"
WRITTEN: Final = "Layer output"
CASTS: Final = ("Casts of parameters", "Cast of the input")
_HELD: Final = ("Held for later layers", "Held by calling modules")
_INDICES: Final = "Pooling indices"
_ORDER: Final = "order of the layers"
_CATEGORIES: Final = {
    "parameters": (PARAMETERS, "sum of weights and biases"),
    "buffers": (STATISTICS, "sum of 2 · C · 4 B + 8 B a batch norm"),
    "inputs": (INPUT, "N · C · H · W elements"),
}


@dataclass(frozen=True)
class Peak:
    """What is alive where most is, by name (B); ``complete`` says that it is all of the peak.

    Else some operator takes a workspace of unknown size, which is left out.
    """

    terms: tuple[Term, ...]
    complete: bool

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(term.amount for term in self.terms)

    def amount(self, *names: str) -> int:
        """The bytes of the terms with these names."""
        return sum(term.amount for term in self.terms if term.name in names)

    @property
    def before(self) -> int:
        """What is there before the call."""
        return self.amount(PARAMETERS, STATISTICS, INPUT)

    @property
    def workspace(self) -> int:
        """What the operator takes for itself, and what autocast copies."""
        return self.total - self.before - self.amount(READ, WRITTEN, PENDING, *_HELD)


def peak(captured: Captured, batch: int, conditions: Conditions) -> Peak:
    """The first moment of an inference at which most is alive; the record's runs ask for few."""
    operators = captured.network.operators
    first = {
        n: NOTHING
        if takes_nothing(operators[n])
        else workspace(captured.operator(n, batch), conditions)
        for n in set(captured.alike)
    }
    taken = [first[number] for number in captured.alike]
    totals = [
        fixed + each * batch + found.amount
        for (fixed, each), found in zip(captured.living, taken, strict=True)
    ]
    number = totals.index(max(totals))
    terms = tuple(_terms(captured.network, captured.sizes(batch), number, taken[number]))
    return Peak(terms, all(found.complete for found in first.values()))


def _terms(network: Network, sizes: Sequence[int], number: int, taken: Workspace) -> Iterator[Term]:
    """Every storage that is alive at an operator under one name, then its workspace."""
    there = resident(network)
    operators = network.operators[: number + 1]
    alive = {storage for operator in operators for storage in operator.made}
    alive -= {storage for operator in operators for storage in operator.freed}
    operator = operators[-1]
    casts, indices = _casts(network), _indices(operators)
    own = alive - casts.keys() - indices
    read, written = _read(operator) & own, {t.storage for t in operator.writes} & own
    later = {s for after in network.operators[number + 1 :] for s in _read(after)} & own
    groups: tuple[tuple[str, set[int], str, str], ...] = (
        (READ, read, "tensors that the layer reads", _ORDER),
        (WRITTEN, written - read, "output elements", _ORDER),
        (_HELD[0], later - read - written, "tensors that later layers read", _ORDER),
        (PENDING, set(), "", ""),
        (_HELD[1], own - read - written - later, "arguments of the modules around it", _ORDER),
        (CASTS[0], {s for s in alive if casts.get(s) == "parameters"},
         "weights and biases of layers so far", "cached until autocast ends"),
        (CASTS[1], {s for s in alive if casts.get(s) == "inputs"},
         "N · C · H · W elements", "freed with the layer"),
        (_INDICES, alive & indices, "output elements · 8 B", ALLOCATED),
    )  # fmt: skip
    for category, (name, formula) in _CATEGORIES.items():
        size = sum(sizes[s] for s, found in there.items() if found == category)
        yield Term(name, size, formula, SHAPES)
    for name, storages, formula, evidence in groups:
        if name == PENDING:
            yield from (term for term in taken.terms if term.name == PENDING)
        elif size := sum(sizes[storage] for storage in storages):
            yield Term(name, size, formula, evidence)
    yield from (term for term in taken.terms if term.name != PENDING and term.amount)


@lru_cache(maxsize=4096)
def needed(captured: Captured, batch: int) -> int:
    """The most bytes of tensors that an operator or a later one reads or writes, and parameters.

    A lower bound of what computing operator by operator takes, on any device.
    """
    network, sizes = captured.network, captured.sizes(batch)
    there = resident(network)
    spared = {*there, *_casts(network), *_indices(network.operators)}
    ends: dict[int, int] = {}
    for number, operator in enumerate(network.operators):
        ends |= dict.fromkeys(_read(operator) | set(operator.made), number)
    alive = most = 0
    leaving = [0] * len(network.operators)
    for number, operator in enumerate(network.operators):
        for storage in set(operator.made) - spared:
            alive += sizes[storage]
            leaving[ends[storage]] += sizes[storage]
        most = max(most, alive)
        alive -= leaving[number]
    return most + sum(sizes[storage] for storage in there)


def before(captured: Captured, batch: int) -> int:
    """The bytes of parameters, running statistics and input."""
    sizes = captured.sizes(batch)
    return sum(sizes[storage] for storage in resident(captured.network))


def _read(operator: Operator) -> set[int]:
    return {tensor.storage for tensor in operator.read}


def _casts(network: Network) -> dict[int, str]:
    """The storages that autocast copies from parameters or from the input, with which it was.

    ``aten/src/ATen/autocast_mode.cpp``, ``cached_cast``: copies of parameters that require
    gradients are kept until autocast ends, also without gradients.
    """
    there = resident(network)
    return {
        operator.made[0]: there[operator.reads["self"][0].storage]
        for operator in network.operators
        if operator.base == "_to_copy" and operator.reads["self"][0].storage in there
    }


def _indices(operators: Iterable[Operator]) -> set[int]:
    """Where each maximum was: computed without gradients too, and dropped."""
    pools = (each for each in operators if each.base == "max_pool2d_with_indices")
    return {pool.writes[1].storage for pool in pools}
