"""What is alive while the operators of a network run, storage by storage, and the peak; pure.

Which storage is let go when is known from the capture, since Python holds the same tensors there.
What an operator takes for itself while it runs (``theory.workspaces``) is added where a rule gives
it; where none does, the operator takes at least nothing, and so does the network.  On a GPU each
storage takes a block of the allocator, at least as large as the storage rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from report.records.operations import Network, Operator, Phase
from report.theory import cuda_memory
from report.theory.conditions import Conditions, Workspace
from report.theory.workspaces import workspace

Category: TypeAlias = Literal[
    "parameters", "buffers", "inputs", "optimiser state", "activations", "gradients"
]
CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)

#: What is made in a phase belongs to this category.
_MADE_IN: Final[dict[Phase, Category]] = {
    "forward": "activations",
    "backward": "gradients",
    "update": "optimiser state",
}


@dataclass(frozen=True)
class Moment:
    """What is alive (B) while one operator runs, its results among it, by category.

    ``workspace`` is what it takes beside at its largest moment.
    """

    operator: Operator
    alive: dict[Category, int]
    workspace: Workspace

    @property
    def total(self) -> int:
        """All bytes that are known of."""
        return sum(self.alive.values()) + self.workspace.amount


def timeline(network: Network, conditions: Conditions) -> Iterator[Moment]:
    """The operators in order, each with what is alive while it runs."""
    sizes, allocator = network.storages, conditions.allocator
    if allocator is not None:
        sizes = tuple(map(allocator.rounded, sizes))
    for operator, alive in zip(network.operators, living(network, sizes), strict=True):
        on_cpu = allocator is None
        taken = workspace(operator, conditions) if on_cpu else cuda_memory.workspace(operator)
        yield Moment(operator, alive, taken)


def living(network: Network, sizes: Sequence[int]) -> Iterator[dict[Category, int]]:
    """What is alive while each operator runs, where storages have these sizes."""
    categories = resident(network)
    alive = dict.fromkeys(CATEGORIES, 0)
    for storage, category in categories.items():
        alive[category] += sizes[storage]
    for operator in network.operators:
        for storage in operator.freed:
            alive[categories.pop(storage)] -= sizes[storage]
        read = {t.storage for found in operator.reads.values() for t in found}
        # A tensor made from Python's numbers is there from where it is read first.
        for storage in (*operator.made, *sorted(s for s in read if s not in categories)):
            categories[storage] = _MADE_IN[operator.phase]
            alive[categories[storage]] += sizes[storage]
        yield dict(alive)


def resident(network: Network) -> dict[int, Category]:
    """The storages that are there before the first operator."""
    found: dict[int, Category] = {}
    for category, tensors in (
        ("optimiser state", network.state),
        ("inputs", network.inputs),
        ("buffers", network.buffers.values()),
        ("parameters", network.parameters.values()),
    ):
        found |= {t.storage: category for t in tensors}  # type: ignore[misc]
    return found
