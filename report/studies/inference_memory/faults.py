"""Pages that a call maps anew, predicted from the sizes of the blocks that it asks for.

The GNU C library serves a request from the system, by ``mmap``, if it is at least as large as a
threshold and the heap has no room for it, and gives such a block back to the system as soon as it
is freed.  The threshold grows with what was freed before, but never beyond 32 MiB (``mallopt(3)``,
``M_MMAP_THRESHOLD``, ``DEFAULT_MMAP_THRESHOLD_MAX`` on systems of 64 bits).  The system maps and
clears each page when it is first written: one fault a page, and one for the page of the header,
since a block that starts behind its header does not end at a page.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from report.evidence.remembered import remembered
from report.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Quantity
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import Call
from report.studies.inference_memory.sweeps import best_call, resnets, sweep

#: Blocks from this size on are always given back to the system when they are freed (B).
THRESHOLD: Final = 32 * 2**20
PAGE: Final = 4096
#: Counted and predicted faults agree within this share.
NEAR: Final = 0.001


@remembered
def large_blocks(run: Run, call: Call) -> tuple[int, ...]:
    """The sizes of the blocks that a call asks for and that may not stay with the process (B).

    None where the events were not recorded.
    """
    events = run.samples("memory_events", call.factors)
    known = () if isinstance(events, Missing) else events
    return tuple(int(change) for change in known if change >= THRESHOLD)


def pages(size: int) -> int:
    """The pages that a block of ``size`` B and its header lie in."""
    return size // PAGE + 1


def predicted_faults(run: Run, call: Call) -> int:
    """Page faults of a call if the heap has no room for any of its large blocks."""
    return sum(map(pages, large_blocks(run, call)))


def counted_faults(run: Run, call: Call) -> Quantity:
    """Page faults of a call whose freed memory goes back to the system."""
    return run.returned().count("page_faults", call)


@remembered
def predictable(run: Run) -> tuple[Call, ...]:
    """The eager calls of the ResNets that ask for large blocks and counted their faults."""
    return tuple(
        call
        for network in resnets(run)
        for call in run.chosen(network=network, execution="eager")
        if large_blocks(run, call) and not counted_faults(run, call).missing
    )


def off(run: Run, call: Call) -> int:
    """Page faults in the median of the ``predictable`` calls, less those of the blocks."""
    found = point(counted_faults(run, call))
    assert not isinstance(found, Missing)
    return round(found) - predicted_faults(run, call)


def far_networks(run: Run) -> list[str]:
    """The networks of which a call's faults are not within ``NEAR`` of those of its blocks."""
    return list(dict.fromkeys(c.network for c in predictable(run) if not _is_near(run, c)))


def near(run: Run) -> tuple[int, ...]:
    """How far the faults of those calls are off that agree within ``NEAR``."""
    return tuple(off(run, call) for call in predictable(run) if _is_near(run, call))


def _is_near(run: Run, call: Call) -> bool:
    return abs(off(run, call)) <= NEAR * predicted_faults(run, call)


def first_large(run: Run, network: str) -> tuple[Call, Call] | None:
    """The last plain call without large blocks and the first one with them, both timed."""
    for before, after in pairwise(run.timed(sweep(run, network))):
        if not large_blocks(run, before) and large_blocks(run, after):
            return before, after
    return None


def fault_cost(run: Run, network: str) -> Quantity:
    """Seconds a fault at the largest batch, if all time beyond that without faults is theirs.

    That is the time of the same call with memory kept, or else in proportion to the best batch.
    """
    returned = run.returned()
    largest, fastest = run.timed(sweep(run, network))[-1], best_call(run, network)
    without = run.time(largest)
    if returned is run:
        without = largest.batch / fastest.batch * run.time(fastest)
    return (returned.time(largest) - without) / returned.count("page_faults", largest)
