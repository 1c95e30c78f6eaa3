"""The memory of a captured network on a GPU: its requests in the model of CUDA's allocator; pure.

In a new process parameters and buffers are moved to the device, then come the inputs, then the call
before (``history``), then the call that is asked about.  What libraries take beside tensors stands
in no capture (``UNKNOWN``), so that the allocator's sums hold for a call without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from report.records.operations import Network, Operator
from report.theory.allocator import SUMS, Allocate, Free, Options, Request, Snapshot, Sum, replay
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


def cuda_memory(network: Network, history: Sequence[Operator], options: Options) -> dict[Sum, int]:
    """The most that the allocator of a process with these options holds in a call (B)."""
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
