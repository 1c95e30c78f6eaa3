"""The memory of a captured network on a GPU: its requests in the model of CUDA's allocator; pure.

In a new process parameters and buffers are moved to the device, then come the inputs, then the call
before (``history``), then the call that is asked about.  What libraries take beside tensors stands
in no capture (``UNKNOWN``), so that the allocator's sums hold for a call without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final

from report.records.operations import Network, Operator
from report.theory.allocator import Allocate, Free, Request, Snapshot, replay
from report.theory.allocator_options import Options
from report.theory.conditions import NOTHING, UNKNOWN, Workspace
from report.theory.operators import kind_of

#: Seen to take nothing beside their results on an H100 in float32 (a test compares the requests
#: with the history of the allocator).
TAKES_NOTHING: Final = frozenset({
    "relu", "relu_", "tanh", "add", "add_", "constant_pad_nd", "native_batch_norm",
    "max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d",
    "threshold_backward", "max_pool2d_with_indices_backward", "_log_softmax",
    "_log_softmax_backward_data", "nll_loss_forward", "nll_loss_backward", "div",
})  # fmt: skip
#: A processor's own operators; a GPU runs others in their place, with other results.
ONLY_ON_CPU: Final = frozenset({
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_safe_softmax", "bernoulli", "bernoulli_", "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward",
})  # fmt: skip


def workspace(operator: Operator) -> Workspace:
    """What an operator takes beside its results on a GPU, as far as somebody has seen it."""
    if kind_of(operator) in ("view", "creation"):
        return NOTHING
    types = {tensor.dtype for found in operator.reads.values() for tensor in found}
    known = operator.base in TAKES_NOTHING and types <= {"float32", "int64"}
    return NOTHING if known and not operator.settings.get("training") else UNKNOWN


@dataclass(frozen=True)
class CudaMemory:
    """The allocator's states while each operator of a call runs, its results among what is live."""

    states: tuple[Snapshot, ...]

    @cached_property
    def requested_peak(self) -> int:
        """Most bytes that live tensors asked for."""
        return max((state.requested for state in self.states), default=0)

    @cached_property
    def allocated_peak(self) -> int:
        """Most bytes in blocks that are handed out."""
        return max((state.allocated for state in self.states), default=0)

    @cached_property
    def reserved_peak(self) -> int:
        """Most bytes in segments."""
        return max((state.reserved for state in self.states), default=0)


def cuda_memory(network: Network, history: Sequence[Operator], options: Options) -> CudaMemory:
    """What the allocator of a process with these options holds in the call of ``network``."""
    before = chain(
        _requests(_resident(network, history), network),
        *(requests(operator, network) for operator in history),
        (Free(str(storage)) for storage in _let_go(network, history)),
    )
    state, states = replay(before, Snapshot(options=options)).last, []
    for operator in network.operators:
        state = replay(requests(operator, network), state).last
        states.append(state)
    return CudaMemory(tuple(states))


def requests(operator: Operator, network: Network) -> Iterator[Request]:
    """What is let go before an operator, and what it allocates for its results."""
    yield from (Free(str(storage)) for storage in operator.freed)
    yield from _requests(operator.made, network)


def _requests(storages: Sequence[int], network: Network) -> Iterator[Allocate]:
    yield from (Allocate(str(storage), network.storages[storage]) for storage in storages)


def _resident(network: Network, history: Sequence[Operator]) -> tuple[int, ...]:
    """The storages that are there before the first operator, in the order of their numbers."""
    operators = (*history, *network.operators)
    made = {storage for operator in operators for storage in operator.made}
    return tuple(storage for storage in range(len(network.storages)) if storage not in made)


def _let_go(network: Network, history: Sequence[Operator]) -> tuple[int, ...]:
    """What the call before leaves that is no state, and is gone when the next one begins."""
    made = {storage for operator in history for storage in operator.made}
    freed = {storage for operator in history for storage in operator.freed}
    return tuple(sorted(made - freed - {tensor.storage for tensor in network.state}))
