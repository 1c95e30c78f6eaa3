"""What is alive while the operators of a network run, storage by storage, and the peak; pure.

Which storage is let go when is known from the capture, since Python holds the same tensors there.
What an operator takes for itself while it runs (``theory.workspaces``) is added where a rule gives
it; where none does, the operator takes at least nothing, and so does the network.  On a GPU each
storage takes a block of the allocator, at least as large as the storage rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal, TypeAlias, get_args

from report.core.records.operations import Network, Operator, Phase
from report.theory.allocator import SUMS, Allocate, Free, Options, Request, Snapshot, Sum, replay
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
#: A processor's own operators; a GPU runs others in their place, with other results.
ONLY_ON_CPU: Final = frozenset({
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_safe_softmax", "bernoulli", "bernoulli_", "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward",
})  # fmt: skip


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
        yield Moment(operator, alive, workspace(operator, conditions))


def living(network: Network, sizes: Sequence[int]) -> Iterator[dict[Category, int]]:
    """What is alive while each operator runs, where storages have these sizes."""
    categories = resident(network)
    alive = dict.fromkeys(CATEGORIES, 0)
    for storage, category in categories.items():
        alive[category] += sizes[storage]
    for operator in network.operators:
        for storage in operator.freed:
            alive[categories.pop(storage)] -= sizes[storage]
        read = {tensor.storage for tensor in operator.read}
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


# ---------------------------------------------------------------------------------------- on a GPU


def cuda_memory(network: Network, history: Sequence[Operator], options: Options) -> dict[Sum, int]:
    """The most that the allocator of a process with these options holds in a call (B).

    In a new process parameters and buffers are moved to the device, then come the inputs, then the
    call before (``history``), then the call that is asked about.  What libraries take beside
    tensors stands in no capture (``UNKNOWN``), so that the allocator's sums hold for a call without
    it.
    """
    made = {s for each in (*history, *network.operators) for s in each.made}
    there = (storage for storage in range(len(network.storages)) if storage not in made)
    left = {s for each in history for s in each.made} - {s for o in history for s in o.freed}
    before = chain(
        _requests(there, network),
        *(requests(operator, network) for operator in history),
        # What the call before leaves that is no state is gone when the next one begins.
        (Free(str(storage)) for storage in sorted(left - {t.storage for t in network.state})),
    )
    state, states = replay(before, Snapshot(options=options))[-1], []
    for operator in network.operators:
        state = replay(requests(operator, network), state)[-1]
        states.append(state)
    return {of: max((getattr(each, of) for each in states), default=0) for of in SUMS}


def requests(operator: Operator, network: Network) -> Iterator[Request]:
    """What is let go before an operator, and what it allocates for its results."""
    yield from (Free(str(storage)) for storage in operator.freed)
    yield from _requests(operator.made, network)


def _requests(storages: Iterable[int], network: Network) -> Iterator[Allocate]:
    yield from (Allocate(str(storage), network.storages[storage]) for storage in storages)
