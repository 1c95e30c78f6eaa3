"""Pages that a call maps anew, told from the sizes of the blocks that it asks for.

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

from report.evidence.runs import remembered
from report.missing import Missing
from report.paper.declared import cells
from report.paper.tables import Cell, Column, Table
from report.quantity.expression import Quantity
from report.studies.inference_memory.batches import best_batch, rates, resnets, sweep
from report.studies.inference_memory.measured import Run, centre
from report.studies.inference_memory.subject import Call

#: Blocks from this size on are always given back to the system when they are freed (B).
THRESHOLD: Final = 32 * 2**20
PAGE: Final = 4096
#: Counted and predicted faults agree within this share.
NEAR: Final = 0.001


def returned(run: Run) -> Run:
    """The run with the times of calls whose freed memory goes back to the system.

    That is the C library's default, and what records without memory policies hold.
    """
    return run.under("default") if "default" in run.policies else run


@remembered
def large_blocks(run: Run, call: Call) -> tuple[int, ...] | Missing:
    """The sizes of the blocks that a call asks for and that may not stay with the process (B)."""
    events = run.samples("memory_events", call.factors)
    if isinstance(events, Missing):
        return events
    return tuple(int(change) for change in events if change >= THRESHOLD)


def pages(size: int) -> int:
    """The pages that a block of ``size`` B and its header lie in."""
    return size // PAGE + 1


def predicted_faults(run: Run, call: Call) -> int | Missing:
    """Page faults of a call if the heap has no room for any of its large blocks."""
    blocks = large_blocks(run, call)
    return blocks if isinstance(blocks, Missing) else sum(map(pages, blocks))


@remembered
def told(run: Run) -> tuple[Call, ...]:
    """The plain executions of the ResNets that ask for large blocks and counted their faults."""
    calls = [
        call
        for network in resnets(run)
        for call in run.chosen(network=network, execution="eager")
        if large_blocks(run, call) and not returned(run).count("page_faults", call).missing
    ]
    return tuple(call for call in calls if not isinstance(large_blocks(run, call), Missing))


def off(run: Run, call: Call) -> int | Missing:
    """Counted page faults, in the median call, less those that the sizes of the blocks give."""
    expected, seen = predicted_faults(run, call), returned(run).count("page_faults", call)
    if isinstance(expected, Missing):
        return expected
    return seen.missing or round(centre(seen)) - expected


def exact(run: Run) -> int:
    """How many of these calls have exactly the faults that the sizes of their blocks give."""
    return sum(off(run, call) == 0 for call in told(run))


def near(run: Run) -> tuple[int, ...]:
    """How far the faults of those calls are off that agree within ``NEAR``."""
    found = ((off(run, call), predicted_faults(run, call)) for call in told(run))
    return tuple(
        pages_off
        for pages_off, expected in found
        if isinstance(pages_off, int)
        and isinstance(expected, int)
        and abs(pages_off) <= NEAR * expected
    )


def fault_table(run: Run) -> Table | None:
    """Predicted and counted page faults of each call with large blocks; None without one."""
    calls = told(run)
    if not calls:
        return None
    return Table(
        "tbl-faults",
        f"Page faults of calls with blocks of at least {THRESHOLD // 2**20} MiB on {run.label}: "
        "from the sizes of these blocks, if the heap has no room for them, and counted (medians); "
        "and the time of an image over that at the batch of the best rate, plain calls.",
        (
            Column("Network"),
            Column("Batch", "1"),
            Column("Setting"),
            Column("Blocks", "1"),
            Column("Predicted", "1"),
            Column("Counted", "1"),
            Column("Counted ÷ predicted", "1"),
            Column("Time of an image", "1"),
        ),
        tuple(_row(run, call) for call in calls),
        sources=(run.file,),
        wide=True,
    )


def _row(run: Run, call: Call) -> tuple[Cell, ...]:
    blocks, expected = large_blocks(run, call), predicted_faults(run, call)
    seen = centre(returned(run).count("page_faults", call))
    assert not isinstance(blocks, Missing)
    assert not isinstance(expected, Missing)
    ratio: Cell = 1 if seen == expected else seen / expected
    slower = returned(run).image_time_ratio(call, best_call(run, call.network))
    return cells(
        call.network,
        call.batch,
        call.setting,
        len(blocks),
        expected,
        round(seen),
        ratio,
        slower,
    )


def best_call(run: Run, network: str) -> Call:
    """The plain call of a network with the best rate over the batch sizes."""
    best = best_batch(rates(run, network))
    return next(call for call in sweep(run, network) if call.batch == best)


def first_large(run: Run, network: str) -> tuple[Call, Call] | None:
    """The last plain call without large blocks and the first one with them, both timed."""
    calls = run.timed(sweep(run, network))
    for before, after in pairwise(calls):
        if not large_blocks(run, before) and large_blocks(run, after):
            return before, after
    return None


def fault_cost(run: Run, network: str) -> Quantity:
    """Seconds a fault at the largest batch, if all time beyond that without faults is theirs.

    That is the time of the same call with memory kept, or else in proportion to the best batch.
    """
    largest, fastest = run.timed(sweep(run, network))[-1], best_call(run, network)
    without = run.time(largest)
    if returned(run) is run:
        without = largest.batch / fastest.batch * run.time(fastest)
    beyond = returned(run).time(largest) - without
    return beyond / returned(run).count("page_faults", largest)
