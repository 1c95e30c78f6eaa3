"""Live memory while the operators of a network run, storage by storage; pure.

The capture contains when each storage is freed, since Python holds the same tensors there as in a
real call.  An operator's workspace (``theory.workspaces``) is added where a rule gives it; without
a rule the sum is a lower bound.  On a GPU each storage occupies a block of the allocator, at least
as large as the storage rounded up.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from report.core.records.operations import Network, Operator, Phase
from report.theory.allocator import (
    SUMS,
    Allocate,
    Free,
    MemoryRequest,
    Options,
    Snapshot,
    Sum,
    replay,
)
from report.theory.conditions import Conditions, Workspace
from report.theory.workspaces import workspace

Category: TypeAlias = Literal[
    "parameters", "buffers", "inputs", "optimiser state", "activations", "gradients"
]
CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)

#: Phase → category of the storages that are allocated in it.
_ALLOCATED_IN: Final[dict[Phase, Category]] = {
    "forward": "activations",
    "backward": "gradients",
    "update": "optimiser state",
}
#: Operators of a processor for which a GPU runs others, with other results.
ONLY_ON_CPU: Final = frozenset({
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_safe_softmax", "bernoulli", "bernoulli_", "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward",
})  # fmt: skip


@dataclass(frozen=True)
class LiveBytes:
    """Live bytes by category while one operator runs, including its results.

    ``workspace`` is the most that the operator allocates besides.
    """

    operator: Operator
    alive: dict[Category, int]
    workspace: Workspace

    @property
    def total(self) -> int:
        """All known bytes."""
        return sum(self.alive.values()) + self.workspace.amount


def timeline(network: Network, conditions: Conditions) -> Iterator[LiveBytes]:
    """Yield the live memory of every operator, in order."""
    sizes, allocator = network.storages, conditions.allocator
    if allocator is not None:
        sizes = tuple(map(allocator.rounded, sizes))
    for operator, alive in zip(network.operators, living(network, sizes), strict=True):
        yield LiveBytes(operator, alive, workspace(operator, conditions))


def living(network: Network, sizes: Sequence[int]) -> Iterator[dict[Category, int]]:
    """Yield live bytes by category at each operator, for storages of these ``sizes`` (B)."""
    categories = resident(network)
    alive = dict.fromkeys(CATEGORIES, 0)
    for storage, category in categories.items():
        alive[category] += sizes[storage]
    for operator in network.operators:
        for storage in operator.freed:
            alive[categories.pop(storage)] -= sizes[storage]
        # No operator allocates a tensor of Python's numbers; it is alive from its first reader on.
        # (A difference of sets would visit every living storage at every operator.)
        read = {tensor.storage for tensor in operator.read}
        first_read = sorted(storage for storage in read if storage not in categories)
        for storage in (*operator.allocated, *first_read):
            categories[storage] = _ALLOCATED_IN[operator.phase]
            alive[categories[storage]] += sizes[storage]
        yield dict(alive)


def resident(network: Network) -> dict[int, Category]:
    """Return the category of every storage that is alive before the first operator."""
    categories: dict[int, Category] = {}
    for category, tensors in (
        ("optimiser state", network.state),
        ("inputs", network.inputs),
        ("buffers", network.buffers.values()),
        ("parameters", network.parameters.values()),
    ):
        categories |= {t.storage: category for t in tensors}  # type: ignore[misc]
    return categories


# ---------------------------------------------------------------------------------------- on a GPU


def cuda_memory(network: Network, history: Sequence[Operator], options: Options) -> dict[Sum, int]:
    """Return the largest sums of the allocator of a new process during a call (B).

    The process moves parameters and buffers to the device, then the inputs, then makes the previous
    call (``history``), then the call in question.  No capture contains the memory that libraries
    allocate beside tensors, so that the sums hold for a call without it.
    """
    left = set[int]()
    for operator in history:
        left.update(operator.allocated)
        left.difference_update(operator.freed)
    allocated = set[int]().union(*(o.allocated for o in (*history, *network.operators)))
    at_start = [s for s in range(len(network.storages)) if s not in allocated]
    before: list[MemoryRequest] = [*_requests(at_start, network)]
    for operator in history:
        before += requests(operator, network)
    # Storages of the previous call that are no state are freed before the next call begins.
    left -= {tensor.storage for tensor in network.state}
    before += (Free(str(storage)) for storage in sorted(left))
    state = replay(before, Snapshot(options=options))[-1]
    largest = dict.fromkeys(SUMS, 0)
    for operator in network.operators:
        state = replay(requests(operator, network), state)[-1]
        for name in SUMS:
            largest[name] = max(largest[name], getattr(state, name))
    return largest


def requests(operator: Operator, network: Network) -> Iterator[MemoryRequest]:
    """Yield the requests of an operator: storages freed before it, then its results."""
    yield from (Free(str(storage)) for storage in operator.freed)
    yield from _requests(operator.allocated, network)


def _requests(storages: Iterable[int], network: Network) -> Iterator[Allocate]:
    yield from (Allocate(str(storage), network.storages[storage]) for storage in storages)
