"""Live memory while the operators of a network run, storage by storage.

A capture records when each storage is freed, since Python keeps the same tensors alive as in a real
call.  The workspaces of operators (``theory.workspaces``) are added; the sum is a lower bound if an
operator's workspace is unknown.  On a GPU a storage occupies an allocator's block of rounded size.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from report.core.records.operations import Network, Operator, Phase
from report.theory import allocator
from report.theory.conditions import Conditions, Workspace
from report.theory.workspaces import workspace

#: Reason why a storage is alive.
Category: TypeAlias = Literal[
    "parameters", "buffers", "inputs", "optimiser state", "activations", "gradients"
]
CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)

#: Phase → category of the storages that operators of this phase allocate.
_ALLOCATED_IN: Final[dict[Phase, Category]] = {
    "forward": "activations",
    "backward": "gradients",
    "update": "optimiser state",
}
#: CPU operators that a GPU replaces by operators with different output tensors.
ONLY_ON_CPU: Final = frozenset({
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_safe_softmax", "bernoulli", "bernoulli_", "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward",
})  # fmt: skip


@dataclass(frozen=True)
class LiveBytes:
    """Live bytes by category while an operator runs, including its results.

    ``workspace`` is the most memory that the operator allocates besides the results.
    """

    operator: Operator
    alive: dict[Category, int]
    workspace: Workspace

    @property
    def total(self) -> int:
        """Live bytes of all categories, and the known bytes of the workspace."""
        return sum(self.alive.values()) + self.workspace.amount


def timeline(network: Network, conditions: Conditions) -> Iterator[LiveBytes]:
    """Yield the live memory of every operator, in order."""
    sizes, options = network.storages, conditions.allocator
    if options is not None:
        sizes = tuple(map(options.round_size, sizes))
    for operator, alive in zip(network.operators, bytes_by_category(network, sizes), strict=True):
        yield LiveBytes(operator, alive, workspace(operator, conditions))


def bytes_by_category(network: Network, sizes: Sequence[int]) -> Iterator[dict[Category, int]]:
    """Yield live bytes by category at each operator, for storages of these ``sizes`` (B)."""
    categories = resident_categories(network)
    alive = dict.fromkeys(CATEGORIES, 0)
    for storage, category in categories.items():
        alive[category] += sizes[storage]
    for operator in network.operators:
        for storage in operator.freed:
            alive[categories.pop(storage)] -= sizes[storage]
        # No operator allocates the tensor of a Python number, so it counts from its first read on.
        # A difference of sets would be slower, since it visits all live storages at every operator.
        read = {tensor.storage for tensor in operator.read_tensors}
        first_read = sorted(storage for storage in read if storage not in categories)
        for storage in (*operator.allocated, *first_read):
            categories[storage] = _ALLOCATED_IN[operator.phase]
            alive[categories[storage]] += sizes[storage]
        yield dict(alive)


def resident_categories(network: Network) -> dict[int, Category]:
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


def cuda_memory(
    network: Network, history: Sequence[Operator], options: allocator.Options
) -> dict[allocator.Sum, int]:
    """Return the maxima of the allocator's sums during a call in a new process (B).

    The process moves parameters, buffers and inputs to the device, makes a previous call
    (``history``), and then makes the call itself.  The sums leave out memory that libraries
    allocate besides tensors, since captures do not contain this memory.
    """
    remaining = set[int]()
    for operator in history:
        remaining.update(operator.allocated)
        remaining.difference_update(operator.freed)
    allocated = set[int]().union(*(o.allocated for o in (*history, *network.operators)))
    at_start = [s for s in range(len(network.storages)) if s not in allocated]
    before: list[allocator.MemoryRequest] = [*_allocations(at_start, network)]
    for operator in history:
        before += requests_of(operator, network)
    # Storages of the previous call, except state, are freed before the next call begins.
    remaining -= {tensor.storage for tensor in network.state}
    before += (allocator.Free(str(storage)) for storage in sorted(remaining))
    state = allocator.replay(before, allocator.Snapshot(options=options))[-1]
    largest = dict.fromkeys(allocator.SUMS, 0)
    for operator in network.operators:
        state = allocator.replay(requests_of(operator, network), state)[-1]
        for name in allocator.SUMS:
            largest[name] = max(largest[name], getattr(state, name))
    return largest


def requests_of(operator: Operator, network: Network) -> Iterator[allocator.MemoryRequest]:
    """Yield the requests of an operator: storages freed before it runs, then its allocations."""
    yield from (allocator.Free(str(storage)) for storage in operator.freed)
    yield from _allocations(operator.allocated, network)


def _allocations(storages: Iterable[int], network: Network) -> Iterator[allocator.Allocate]:
    yield from (allocator.Allocate(str(storage), network.storages[storage]) for storage in storages)
