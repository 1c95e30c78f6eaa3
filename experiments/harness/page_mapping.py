"""The price of a page fault: how many new pages of memory the system maps in a second.

An allocator that gives memory back to the system gets new pages for the next call, which fault one
by one when they are touched.  A sample maps 64 MiB of private memory, without huge pages, and
touches one byte of each page; it lasts from asking for the memory to the last touch, and giving it
back is not in it.  One thread does it, as one thread makes most faults of a framework.
"""

from __future__ import annotations

import mmap
import statistics
from typing import Any, Final

from experiments.harness import timing
from experiments.harness.outcomes import OutcomeError
from experiments.harness.workload import Workload
from report.records.record import Ceiling, Moment

_BYTES: Final = 64 * 2**20
_WARMUP: Final = 2
RUNS: Final = 20
#: Faults beyond those of the pages: tables, and what Python itself touches.
_MORE: Final = 1.02


def measured(moment: Moment, runs: int = RUNS) -> Ceiling:
    """``runs`` samples of mapping 64 MiB page by page.

    Raises ``OutcomeError``, unavailable, where not every page faulted once.
    """
    pages = _BYTES // mmap.PAGESIZE
    workload = Workload(touched, reset=lambda: None)
    with timing.collector_off():
        found = [timing.cpu_clock(workload) for _ in range(_WARMUP + runs)][_WARMUP:]
    check(pages, [each.system.page_faults for each in found if each.system is not None])
    return Ceiling(
        operation="page_mapping",
        moment=moment,
        dtype="uint8",
        size=f"{pages} pages of {mmap.PAGESIZE} B",
        work=pages,
        work_unit="1",
        samples=tuple(each.wall for each in found),
        instrument="mmap",
        working_set=_BYTES,
    )


def check(pages: int, faults: list[int]) -> None:
    """Raise ``OutcomeError`` unless about as many ``faults`` as ``pages`` happened in each run."""
    if not faults:
        raise OutcomeError("unavailable", "page mapping: the system does not count page faults")
    typical = statistics.median(faults)
    if not pages <= typical <= _MORE * pages:
        raise OutcomeError(
            "unavailable",
            f"page mapping: {pages} pages were touched, but {typical:g} page faults happened",
        )


def touched() -> Any:
    """New private memory, one byte of each page of it written."""
    import numpy

    if not hasattr(mmap, "MAP_PRIVATE"):
        raise OutcomeError("unavailable", "page mapping: the system has no private mappings")
    memory = mmap.mmap(-1, _BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    numpy.frombuffer(memory, dtype=numpy.uint8)[:: mmap.PAGESIZE] = 1
    return memory
