"""What the C library's memory policy does to the time of the layer, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from figures.canvas import Drawing
from report.evidence.remembered import remembered
from report.evidence.time_terms import TimeTerms
from report.paper.declared import Field, table
from report.paper.findings import Figure
from report.paper.plots import every_other
from report.paper.policies import (
    COMPARED,
    by_policy,
    compared,
    fault_price,
    gain,
    lost,
    mapping_batches,
    time_terms,
)
from report.paper.reconciliations import time_waterfall
from report.paper.tables import Table
from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import at_least
from report.quantity.verdicts import Statement, expect
from report.records.record import Policy
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.subject import SHOWN_BATCH

#: From the first to the second of these batch sizes pages for each image become fewer: the output
#: outgrows the largest block that glibc keeps by itself (32 MiB, its DEFAULT_MMAP_THRESHOLD_MAX).
_DIP: Final = (128, 256)


def pooled(run: Run | None) -> bool:
    """Whether such a device was measured in several runs."""
    return run is not None and compared(run) and bool(run.stored.others)


@remembered
def terms(run: Run, batch: int) -> TimeTerms:
    """The time of a forward call, term by term, under the policy of ``run``."""
    return time_terms(run, batch, partial(_arithmetic, run), partial(_copies, run))


def _arithmetic(run: Run, batch: int) -> Quantity:
    return named("work at the ceiling", theory.work(batch) / run.peak_rate("matrix_product"))


def _copies(run: Run, batch: int) -> Quantity:
    """Each copy is read once and written once."""
    return named("reordering", 2 * _reordered(run, batch) / run.peak_rate("copy"))


def _reordered(run: Run, batch: int) -> Quantity:
    """Bytes that the library copies into its own layout and back: all but the output itself."""
    return run.allocations(batch) - theory.output_bytes(batch)


def shown_batch(run: Run) -> int:
    """The batch size that is told: the planned one, or the largest that was measured."""
    return SHOWN_BATCH if SHOWN_BATCH in run.timed else run.timed[-1]


def figures(run: Run) -> Iterator[Figure]:
    """Time and page faults over the batch size by policy; where the time of a call goes."""
    drawing = by_policy(run, every_other(run.timed))
    yield Figure("fig-policies", "", "", drawing, (run.file,))
    drawn = time_waterfall(terms(run.under("default"), shown_batch(run)), "ms")
    if drawn is not None:
        yield Figure("fig-time-terms", "", "", Drawing((drawn,), height=drawn.height), (run.file,))


def terms_table(run: Run) -> Table:
    """The terms under both policies, at every other batch size where there are many."""
    rows = [(policy, batch) for policy in COMPARED for batch in every_other(run.timed)]

    def term(get: Callable[[TimeTerms], Quantity]) -> Callable[[tuple[Policy, int]], Quantity]:
        return lambda row: get(terms(run.under(row[0]), row[1]))

    columns: Mapping[str, Callable[[TimeTerms], Quantity]] = {
        "Time": lambda found: found.whole,
        "Work": lambda found: found.arithmetic,
        "Reordering": lambda found: found.copies,
        "Page mapping": lambda found: found.mapping,
        "Rest": lambda found: found.rest,
    }
    return table(
        "tbl-time-terms",
        rows,
        [
            Field("Memory", "", lambda row: "kept" if row[0] == "retained" else "returned"),
            Field("Batch", "1", lambda row: row[1]),
            *(Field(name, "s", term(get), "ms") for name, get in columns.items()),
        ],
        wide=True,
    )


def processes(run: Run) -> Quantity:
    """The fewest processes that measured a case under either policy, both together."""
    found = [run.under(policy).processes_of(batch) for batch in run.timed for policy in COMPARED]
    return exact("processes of a case", "1", 2 * min(found), run.file)


#: The numbers of the prose.
VALUES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "processes": processes,
    "policy_batch": lambda run: exact("batch size shown", "1", shown_batch(run), run.file),
    "policy_gain": gain,
    "dip_batch": lambda run: exact("batch size of the dip", "1", _DIP[1]),
    "policy_share": lambda run: run.under("retained").share(shown_batch(run)),
    "policy_default_share": lambda run: run.under("default").share(shown_batch(run)),
    "fault_price": fault_price,
    "mapping_time": lambda run: terms(run.under("default"), shown_batch(run)).mapping,
    "policy_lost": lambda run: lost(run, shown_batch(run)),
    "time_rest": lambda run: terms(run.under("default"), shown_batch(run)).rest,
}


#: Those of a device that was measured in several runs.
POOLED: Final[dict[str, Callable[[Run], Quantity]]] = {
    "runs": lambda run: exact("runs of the device", "1", len(run.stored.runs), run.file),
    "between_runs": lambda run: at_least(
        *(run.between_runs("time", run.factors(batch, "forward")) for batch in run.timed)
    ),
}


def pays(run: Run) -> Statement:
    """That giving memory back costs a tenth of the time and more."""
    return Statement(gain(run), expect("> 1.1"))


def maps_fewer(run: Run | None) -> bool:
    """Whether calls of 128 and of 256 images both map pages, which can be compared."""
    return run is not None and compared(run) and set(_DIP) <= set(mapping_batches(run))


def dips(run: Run) -> Statement:
    """That a call of twice as many images maps fewer pages for each."""
    before, then = (run.under("default").faults(batch) / batch for batch in _DIP)
    return Statement(then / before, expect("< 0.9"))
