"""Peak memory of an inference, as terms: one for each reason why tensors are alive.

Eager PyTorch without gradients frees a tensor when the last reference disappears.  At the peak,
these tensors are alive: parameters, running statistics and the network's input (held by the
caller); inputs and outputs of the current operator; inputs of later operators; arguments of the
calling modules (held until the calls return); copies by autocast; and the operator's workspace.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from report.core.records.operations import Network, Operator
from report.theory.conditions import NO_WORKSPACE, Conditions, Workspace
from report.theory.convolution_workspaces import ALLOCATOR_EVENT, PENDING_OUTPUT
from report.theory.networks import CapturedNetwork
from report.theory.reconciliation import Term
from report.theory.terms import FROM_SHAPES
from report.theory.timeline import resident_categories
from report.theory.workspaces import has_no_workspace, workspace

# Names of terms.
PARAMETERS: Final = "Parameters"
STATISTICS: Final = "Running statistics"
INPUT: Final = "Network input"
LAYER_INPUT: Final = "Layer input"
LAYER_OUTPUT: Final = "Layer output"
PARAMETER_CASTS: Final = "Casts of parameters"
INPUT_CAST: Final = "Cast of the input"
HELD_FOR_LATER: Final = "Held for later layers"
HELD_BY_MODULES: Final = "Held by calling modules"
POOLING_INDICES: Final = "Pooling indices"
#: Evidence for tensors that are alive because of the order of layers.
_BY_LAYER_ORDER: Final = "order of the layers"
#: Category of storages that are alive before the call → name and formula of the term.
_RESIDENT_TERMS: Final = {
    "parameters": (PARAMETERS, "sum of weights and biases"),
    "buffers": (STATISTICS, "sum of 2 · C · 4 B + 8 B a batch norm"),
    "inputs": (INPUT, "N · C · H · W elements"),
}


@dataclass(frozen=True)
class Peak:
    """Live bytes by reason (``terms``) at the moment of the peak.

    A peak that is not ``complete`` is a lower bound: the workspace of an operator is unknown.
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
        """Live bytes before the call."""
        return self.amount(PARAMETERS, STATISTICS, INPUT)

    @property
    def workspace(self) -> int:
        """Bytes of the operator's workspace and of copies by autocast."""
        tensors = (LAYER_INPUT, LAYER_OUTPUT, PENDING_OUTPUT, HELD_FOR_LATER, HELD_BY_MODULES)
        return self.total - self.before - self.amount(*tensors)


@lru_cache(maxsize=4096)
def peak(captured: CapturedNetwork, batch: int, conditions: Conditions) -> Peak:
    """Return the peak of an inference, at the first operator with the most live bytes.

    Results are cached, since machines with equal conditions have equal peaks.
    """
    workspaces = _workspaces(captured, batch, conditions)
    totals = _live_bytes(captured, batch, workspaces)
    highest = totals.index(max(totals))
    at_peak = workspaces[captured.first_with_signature[highest]]
    terms = tuple(_terms(captured, captured.sizes(batch), highest, at_peak))
    return Peak(terms, complete=all(workspace.complete for workspace in workspaces.values()))


@lru_cache(maxsize=4096)
def peak_bytes(captured: CapturedNetwork, batch: int, conditions: Conditions) -> int:
    """Return the bytes of the peak, much faster than ``peak`` does; results are cached."""
    return max(_live_bytes(captured, batch, _workspaces(captured, batch, conditions)))


def _workspaces(
    captured: CapturedNetwork, batch: int, conditions: Conditions
) -> dict[int, Workspace]:
    """Map the index of the first operator of every signature to the operator's workspace."""
    workspaces = dict.fromkeys(captured.first_with_signature, NO_WORKSPACE)
    for number in _with_workspace(captured):
        workspaces[number] = workspace(captured.operator(number, batch), conditions)
    return workspaces


@lru_cache(maxsize=128)
def _with_workspace(captured: CapturedNetwork) -> tuple[int, ...]:
    """Return the indices of operators that may have a workspace, one per signature."""
    first = dict.fromkeys(captured.first_with_signature)
    return tuple(n for n in first if not has_no_workspace(captured.network.operators[n]))


def _live_bytes(
    captured: CapturedNetwork, batch: int, workspaces: Mapping[int, Workspace]
) -> list[int]:
    """Return the live bytes at every operator, including the operator's workspace."""
    amounts = {number: workspace.amount for number, workspace in workspaces.items()}
    totals = []
    firsts = captured.first_with_signature
    for first, (fixed, per_image) in zip(firsts, captured.live_bytes, strict=True):
        totals.append(fixed + per_image * batch + amounts[first])
    return totals


def _terms(
    captured: CapturedNetwork, sizes: Sequence[int], number: int, workspace: Workspace
) -> Iterator[Term]:
    """Yield terms of the live storages at an operator, then terms of its workspace."""
    network = captured.network
    operators = network.operators[: number + 1]
    alive = set[int]()
    for operator in operators:
        alive.update(operator.allocated)
        alive.difference_update(operator.freed)
    operator = operators[-1]
    casts, indices = _cast_categories(network), _index_storages(operators)
    ordinary = alive - casts.keys() - indices  # neither casts nor pooling indices
    read = captured.read_storages[number] & ordinary
    written = {tensor.storage for tensor in operator.writes} & ordinary
    later = frozenset[int]().union(*captured.read_storages[number + 1 :]) & ordinary
    # Name, storages, formula and evidence of each term, in order.  PENDING_OUTPUT is a term of the
    # workspace, for an output that is not yet allocated; this line determines its place.
    groups: tuple[tuple[str, Set[int], str, str], ...] = (
        (LAYER_INPUT, read, "tensors that the layer reads", _BY_LAYER_ORDER),
        (LAYER_OUTPUT, written - read, "output elements", _BY_LAYER_ORDER),
        (HELD_FOR_LATER, later - read - written, "tensors that later layers read", _BY_LAYER_ORDER),
        (PENDING_OUTPUT, set(), "", ""),
        (HELD_BY_MODULES, ordinary - read - written - later,
         "arguments of the modules around it", _BY_LAYER_ORDER),
        (PARAMETER_CASTS, {s for s in alive if casts.get(s) == "parameters"},
         "weights and biases of layers so far", "cached until autocast ends"),
        (INPUT_CAST, {s for s in alive if casts.get(s) == "inputs"},
         "N · C · H · W elements", "freed with the layer"),
        (POOLING_INDICES, alive & indices, "output elements · 8 B", ALLOCATOR_EVENT),
    )  # fmt: skip
    categories = resident_categories(network)
    for category, (name, formula) in _RESIDENT_TERMS.items():
        size = sum(sizes[s] for s, held_as in categories.items() if held_as == category)
        yield Term(name, size, formula, FROM_SHAPES)
    for name, storages, formula, evidence in groups:
        if name == PENDING_OUTPUT:
            yield from (term for term in workspace.terms if term.name == PENDING_OUTPUT)
        elif size := sum(sizes[storage] for storage in storages):
            yield Term(name, size, formula, evidence)
    yield from (term for term in workspace.terms if term.name != PENDING_OUTPUT and term.amount)


def _cast_categories(network: Network) -> dict[int, str]:
    """Map the storages of autocast's copies of parameters or input to the original's category.

    Until autocast ends, it keeps the copies of parameters that require gradients, even if no
    gradient is computed (``aten/src/ATen/autocast_mode.cpp``, ``cached_cast``).
    """
    categories = resident_categories(network)
    casts: dict[int, str] = {}
    for operator in network.operators:
        if operator.base_name == "_to_copy":
            original = operator.reads["self"][0].storage
            if original in categories:
                casts[operator.allocated[0]] = categories[original]
    return casts


def _index_storages(operators: Iterable[Operator]) -> set[int]:
    """Return the storages of pooling indices, which PyTorch computes even without gradients."""
    pools = (operator for operator in operators if operator.base_name == "max_pool2d_with_indices")
    return {pool.writes[1].storage for pool in pools}
