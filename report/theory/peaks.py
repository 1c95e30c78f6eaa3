"""The peak of an inference by the reasons why tensors are alive, and a lower bound for any order.

Eager PyTorch without gradients frees a tensor when nothing refers to it any more.  Alive at the
peak are parameters, running statistics and the network's input, which the caller holds; tensors
that the operator reads and writes; tensors that later operators read; arguments of the modules
around the operator, which their calls hold until they return; copies by autocast; and the
operator's workspace.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from report.core.records.operations import Network, Operator
from report.theory.conditions import NOTHING, Conditions, Workspace
from report.theory.convolution_workspaces import ALLOCATED, PENDING
from report.theory.networks import CapturedNetwork
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
    """Live bytes by name at the moment when most are alive.

    A peak that is not ``complete`` lacks the workspace of some operator, whose size is unknown.
    """

    terms: tuple[Term, ...]
    complete: bool

    @property
    def total(self) -> int:
        """Bytes of all terms."""
        return sum(term.amount for term in self.terms)

    def amount(self, *names: str) -> int:
        """Return the bytes of the terms with these names."""
        return sum(term.amount for term in self.terms if term.name in names)

    @property
    def before(self) -> int:
        """Bytes that are alive before the call."""
        return self.amount(PARAMETERS, STATISTICS, INPUT)

    @property
    def workspace(self) -> int:
        """Bytes of the operator's workspace and of copies by autocast."""
        return self.total - self.before - self.amount(READ, WRITTEN, PENDING, *_HELD)


@lru_cache(maxsize=4096)
def peak(captured: CapturedNetwork, batch: int, conditions: Conditions) -> Peak:
    """Return the peak at the first moment of an inference when most bytes are alive.

    Cached, since machines of the same conditions have the same peaks.
    """
    workspaces = _workspaces(captured, batch, conditions)
    totals = _totals(captured, batch, workspaces)
    highest = totals.index(max(totals))
    at_peak = workspaces[captured.first_alike[highest]]
    terms = tuple(_terms(captured, captured.sizes(batch), highest, at_peak))
    return Peak(terms, all(own.complete for own in workspaces.values()))


def peak_bytes(captured: CapturedNetwork, batch: int, conditions: Conditions) -> int:
    """Return the bytes of the peak without its terms, in a fraction of the time."""
    return max(_totals(captured, batch, _workspaces(captured, batch, conditions)))


def _workspaces(
    captured: CapturedNetwork, batch: int, conditions: Conditions
) -> dict[int, Workspace]:
    """Return the workspace of the first of all operators that are alike, by its number."""
    workspaces = dict.fromkeys(captured.first_alike, NOTHING)
    for number in _taking(captured):
        workspaces[number] = workspace(captured.operator(number, batch), conditions)
    return workspaces


@lru_cache(maxsize=128)
def _taking(captured: CapturedNetwork) -> tuple[int, ...]:
    """Return the numbers of the first operators of their kind that may take a workspace."""
    first = dict.fromkeys(captured.first_alike)
    return tuple(n for n in first if not takes_nothing(captured.network.operators[n]))


def _totals(
    captured: CapturedNetwork, batch: int, workspaces: Mapping[int, Workspace]
) -> list[int]:
    """Return the live bytes at each operator."""
    amounts = {number: taken.amount for number, taken in workspaces.items()}
    totals = []
    for first, (fixed, per_image) in zip(captured.first_alike, captured.live_bytes, strict=True):
        totals.append(fixed + per_image * batch + amounts[first])
    return totals


def _terms(
    captured: CapturedNetwork, sizes: Sequence[int], number: int, taken: Workspace
) -> Iterator[Term]:
    """Yield the live bytes at an operator, every storage under one name, then the workspace."""
    network = captured.network
    operators = network.operators[: number + 1]
    alive = set[int]()
    for operator in operators:
        alive.update(operator.allocated)
        alive.difference_update(operator.freed)
    operator = operators[-1]
    casts, indices = _casts(network), _indices(operators)
    own = alive - casts.keys() - indices
    read, written = captured.reads[number] & own, {t.storage for t in operator.writes} & own
    later = frozenset[int]().union(*captured.reads[number + 1 :]) & own
    groups: tuple[tuple[str, Set[int], str, str], ...] = (
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
    categories = resident(network)
    for category, (name, formula) in _CATEGORIES.items():
        size = sum(sizes[s] for s, held_as in categories.items() if held_as == category)
        yield Term(name, size, formula, SHAPES)
    for name, storages, formula, evidence in groups:
        if name == PENDING:
            yield from (term for term in taken.terms if term.name == PENDING)
        elif size := sum(sizes[storage] for storage in storages):
            yield Term(name, size, formula, evidence)
    yield from (term for term in taken.terms if term.name != PENDING and term.amount)


@lru_cache(maxsize=4096)
def needed(captured: CapturedNetwork, batch: int) -> int:
    """Return a lower bound of the memory for computing operator by operator, on any device (B).

    It is the largest sum of tensors that an operator or a later one reads or writes, with
    parameters, running statistics and input.
    """
    network, sizes = captured.network, captured.sizes(batch)
    held = resident(network)
    spared = {*held, *_casts(network), *_indices(network.operators)}
    ends: dict[int, int] = {}
    for number, operator in enumerate(network.operators):
        ends |= dict.fromkeys(captured.reads[number] | set(operator.allocated), number)
    alive = most = 0
    leaving = [0] * len(network.operators)
    for number, operator in enumerate(network.operators):
        for storage in set(operator.allocated) - spared:
            alive += sizes[storage]
            leaving[ends[storage]] += sizes[storage]
        most = max(most, alive)
        alive -= leaving[number]
    return most + sum(sizes[storage] for storage in held)


def before(captured: CapturedNetwork, batch: int) -> int:
    """Return the bytes of parameters, running statistics and input."""
    sizes = captured.sizes(batch)
    return sum(sizes[storage] for storage in resident(captured.network))


def _casts(network: Network) -> dict[int, str]:
    """Return the copies that autocast makes of parameters or input, with the original's category.

    ``aten/src/ATen/autocast_mode.cpp``, ``cached_cast``: copies of parameters that require
    gradients are cached until autocast ends, even if no gradient is computed.
    """
    categories = resident(network)
    casts: dict[int, str] = {}
    for operator in network.operators:
        if operator.base == "_to_copy":
            original = operator.reads["self"][0].storage
            if original in categories:
                casts[operator.allocated[0]] = categories[original]
    return casts


def _indices(operators: Iterable[Operator]) -> set[int]:
    """Return the storages of pooling indices, which PyTorch computes without gradients too."""
    pools = (operator for operator in operators if operator.base == "max_pool2d_with_indices")
    return {pool.writes[1].storage for pool in pools}
