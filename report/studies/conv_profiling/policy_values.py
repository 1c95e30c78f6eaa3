"""The numbers of conv_profiling's prose about memory policies, of a run that measured several."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Final

from report.missing import Missing
from report.paper import policies
from report.quantity.evaluation import estimate, point
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import geometric_mean
from report.statistics.estimates import Estimate
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.run_values import count
from report.studies.conv_profiling.subject import BASE, SHOWN_BATCH

#: A process stands out that takes so many times as long as the median one.
_STANDS_OUT: Final = 1.2


def shown_batch(run: Run) -> int:
    """The batch size whose call the prose describes, or the largest that was timed."""
    return SHOWN_BATCH if SHOWN_BATCH in run.timed else run.timed[-1]


def _mapping_batch(run: Run) -> int | Missing:
    none = Missing(f"no call mapped pages on {run.label}")
    return min(policies.mapping_batches(run), default=none)


def alike_unmapped(run: Run) -> bool:
    """Whether the times of both policies agree within intervals where no call maps pages."""
    kept, returned = run.under("retained"), run.under("default")
    mapping = policies.mapping_batches(run)
    pairs = (map(estimate, (kept.time(b), returned.time(b))) for b in run.timed if b not in mapping)
    return all(
        isinstance(one, Estimate) and isinstance(other, Estimate) and one.overlaps(other)
        for one, other in pairs
    )


def _gain_of_medians(run: Run) -> Quantity:
    """The slowdown from the medians that are drawn, whose processes are not paired."""
    kept, returned = run.under("retained"), run.under("default")
    ratios = [
        exact("ratio of medians", "1", ratio, run.file)
        for batch in policies.mapping_batches(run)
        if not isinstance(ratio := point(returned.time(batch) / kept.time(batch)), Missing)
    ]
    return geometric_mean(*ratios) if ratios else absent("slowdown", "1", "no call mapped pages")


def _slowest(place: int) -> Callable[[Run], Quantity]:
    """An image's time in the process that stands out most, or in that of the next batch size.

    Processes that are hardly slower than the others do not stand out.
    """

    def found(run: Run) -> Quantity:
        every = (apart for batch in run.timed if (apart := _apart(run, batch)))
        slow = sorted((apart for apart in every if apart[0] > _STANDS_OUT), reverse=True)
        name = "median of the slowest process"
        if len(slow) <= place:
            return absent(name, "s", f"fewer processes stand out on {run.label}")
        return exact(name, "s", slow[place][1], run.file)

    return found


def _apart(run: Run, batch: int) -> tuple[float, float] | None:
    """The slowest process over the median one at a batch size, and its time of an image (s)."""
    processes = run.by_process("time", BASE.factors(batch, "forward"))
    if isinstance(processes, Missing):
        return None
    medians = [median(map(float, process.samples)) for process in processes]
    return max(medians) / median(medians), max(medians) / batch


def _fewer(run: Run) -> int | Missing:
    """The batch size at which an image maps fewer pages than at the one before, by most."""
    pages = {b: point(_image_pages(run, b)) for b in policies.mapping_batches(run)}
    known = {b: float(n) for b, n in pages.items() if not isinstance(n, Missing)}
    drops = {b: known[b] - known[a] for a, b in pairwise(known) if known[b] < known[a]}
    return min(drops, key=lambda b: drops[b], default=Missing("pages never become fewer"))


def _image_pages(run: Run, batch: int) -> Quantity:
    return run.under("default").faults(batch) / batch


def _fewer_pages(run: Run) -> Quantity:
    batch = _fewer(run)
    if isinstance(batch, Missing):
        return absent("pages of an image", "1", batch.reason)
    return _image_pages(run, batch)


#: Of a run that measured more than one memory policy.
OF_POLICIES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "policy_gain": policies.gain,
    "policy_gain_medians": _gain_of_medians,
    "slowest": _slowest(0),
    "next_slowest": _slowest(1),
    "fewer_batch": count("batch size that maps fewer pages", _fewer),
    "fewer_pages": _fewer_pages,
    "policy_batch": count("batch size shown", shown_batch),
    "policy_lost": lambda run: policies.lost(run, shown_batch(run)),
    "mapping_time": lambda run: policies.mapping_time(run.under("default"), shown_batch(run)),
    "mapping_share": lambda run: policies.mapping_share(run, shown_batch(run)),
    "mapping_batch": count("smallest batch that maps pages", _mapping_batch),
    "processes": lambda run: exact(
        "processes of a case",
        "1",
        min(run.under(p).processes_of(b) for p in policies.COMPARED for b in run.timed),
        run.file,
    ),
}
