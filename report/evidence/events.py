"""What PyTorch's CPU allocator did during one call of a convolution: every event by its name.

On a CPU, PyTorch hands a convolution to oneDNN, which may copy input, weights and result into
layouts of its own.  Each such copy is an allocation of a size that shapes give, so that the list of
events that the profiler records can be read like a protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from report.missing import Missing
from report.records.layers import Convolution
from report.records.record import Environment
from report.theory.conditions import vector_block
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import (
    bias_workspace,
    blocked_output,
    descriptor_workspace,
    input_reorder,
    theory_output,
    weight_reorder,
)

UNEXPLAINED: Final = "Unexplained"


def blocked_channels(environment: Environment) -> int:
    """Channels in a block of oneDNN's layouts on the processor of a record."""
    return vector_block(environment.torch.cpu_capability)


@dataclass(frozen=True)
class NamedEvent:
    """One event of the CPU allocator: its place from 1, its change and the sum so far in bytes."""

    number: int
    change: int
    live: int
    name: str


@dataclass(frozen=True)
class Explanation:
    """The events of one call by name, and its peak from the blocks that were live there."""

    events: tuple[NamedEvent, ...]
    peak: Reconciliation


@dataclass(frozen=True)
class _Lifetime:
    """A block of ``size`` bytes, allocated and freed by the events of these numbers."""

    size: int
    first: int
    last: int | None = None

    def holds(self, number: int) -> bool:
        """Whether the block is live after event ``number``."""
        return self.first <= number and (self.last is None or number < self.last)


def explain_events(
    layer: Convolution,
    events: Sequence[int],
    *,
    block: int,
    threads: int,
    measured: Term | Missing,
) -> Explanation:
    """Name what the CPU allocator did during one forward call of ``layer``.

    ``events`` are its changes in bytes in their order, allocations positive; ``block`` are the
    channels of a vector (8 for float32 on AVX2, 16 on AVX-512), ``threads`` those of the call.
    A block is named by its size, which must equal one computed from shapes; each name is given
    once, in the order in which oneDNN allocates; the block that outlives the call is the output.
    What matches nothing is called unexplained and, if live at the peak, left in the residual.  Of
    two live blocks of one size the older is taken to be freed first; that decides names, no sum.

    ``measured`` is the peak beyond the bytes before the call.
    """
    blocks, strays = _lifetimes(events)
    named = _named(layer, blocks, _temporaries(layer, block, threads))
    names = dict.fromkeys(strays, UNEXPLAINED)
    for lifetime, term in zip(blocks, named, strict=True):
        for number in (lifetime.first, lifetime.last):
            if number is not None:
                names[number] = term.name if term else UNEXPLAINED
    running = list(accumulate(events))
    explained = tuple(
        NamedEvent(number, change, live, names[number])
        for number, (change, live) in enumerate(zip(events, running, strict=True), start=1)
    )
    return Explanation(explained, _peak(layer, blocks, named, running, measured))


def _temporaries(layer: Convolution, block: int, threads: int) -> tuple[Term, ...]:
    """What oneDNN may allocate and free within a call, in its order.

    Weights of channels-last kernels are in blocks of up to four vectors of output channels.
    """
    event = "allocated and freed within the call"
    return (
        bias_workspace(layer, block, event),
        descriptor_workspace(layer, threads, event),
        input_reorder(layer, block, event),
        weight_reorder(layer, block, event, in_block=block),
        *(weight_reorder(layer, vectors * block, event) for vectors in (1, 2, 3, 4)),
        blocked_output(layer, block, event),
    )


def _lifetimes(events: Sequence[int]) -> tuple[list[_Lifetime], list[int]]:
    """The blocks of a call in the order of their allocation, and the frees of blocks before it."""
    blocks: list[_Lifetime] = []
    strays = []
    for number, change in enumerate(events, start=1):
        if change > 0:
            blocks.append(_Lifetime(change, number))
            continue
        live = (i for i, b in enumerate(blocks) if b.size == -change and b.last is None)
        index = next(live, None)
        if index is None:
            strays.append(number)
        else:
            blocks[index] = replace(blocks[index], last=number)
    return blocks, strays


def _named(
    layer: Convolution, blocks: Sequence[_Lifetime], temporaries: Sequence[Term]
) -> list[Term | None]:
    """The term that each block is, None where no size matches."""
    used: set[str] = set()
    named = []
    for block in blocks:
        candidates = (theory_output(layer),) if block.last is None else temporaries
        matching = (t for t in candidates if t.amount == block.size and t.name not in used)
        term = next(matching, None)
        used |= {term.name} if term else set()
        named.append(term)
    return named


def _peak(
    layer: Convolution,
    blocks: Sequence[_Lifetime],
    named: Sequence[Term | None],
    running: Sequence[int],
    measured: Term | Missing,
) -> Reconciliation:
    at = running.index(max(running)) + 1 if running else 0
    start = theory_output(layer)
    terms = []
    pending = Term("Output not yet allocated", 0, "−output while it is not live", "order of events")
    for block, term in zip(blocks, named, strict=True):
        if term is None:
            continue
        if block.last is not None:
            terms.append(_at_peak(block, term, at))
        elif not block.holds(at):
            pending = replace(pending, amount=-term.amount)
    subject = f"peak memory of one forward call of {layer.name}"
    return Reconciliation(f"peak-{layer.name}", subject, "B", start, (*terms, pending), measured)


def _at_peak(block: _Lifetime, term: Term, at: int) -> Term:
    """A temporary block as a term of the peak after event ``at``: all of it, or nothing."""
    evidence = f"event {block.first}, freed by event {block.last}"
    if block.holds(at):
        return replace(term, evidence=evidence)
    return replace(term, amount=0, formula="0: not live at the peak", evidence=evidence)
