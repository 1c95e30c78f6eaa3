"""Results of conv_scaling: counts beside theory, and pages of processes beside predictions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from report.core.missing import Missing
from report.core.records.record import PASSES
from report.evidence import executed as evidence
from report.paper.study import Content
from report.quantity.expression import Quantity, Statement, absent, exact
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.runs import Calls, Run
from report.theory.reconciliation import Reconciliation
from report.theory.terms import theory_macs
from report.theory.work import mnist_conv2

# ------------------------------------------------------------------------------------- counts


def executed(run: Run) -> Iterator[Reconciliation]:
    """Reconcile theory with the multiply-adds that lackey counted, forward and with gradients."""
    for pass_ in PASSES:
        cases = {batch: run.factors(batch, pass_) for batch in run.batches}
        for batch, count in evidence.counts(run, cases).items():
            amount = theory.counted_macs(batch, pass_)
            yield evidence.executed(
                f"executed-{run.key}-{pass_}-{batch}",
                f"Executed multiply-adds on {run.label} at batch {batch}",
                replace(theory_macs(mnist_conv2(batch)), amount=amount),
                *count,
            )


def device_work(run: Run) -> Iterator[Reconciliation]:
    """Reconcile forward calls with the float32 counts of a GPU's CUDA cores."""
    for batch in run.batches:
        reconciled = evidence.device_work(
            run,
            run.factors(batch),
            mnist_conv2(batch),
            theory.counted_macs(batch),
            f"device-work-{run.key}-{batch}",
            f"Operations of the CUDA cores on {run.label} at batch {batch}",
        )
        if reconciled is not None:
            yield reconciled


def without_residual(items: Iterable[Reconciliation], source: str) -> Iterator[Statement]:
    """State for each reconciliation that its terms give what was counted, to the unit."""
    for item in items:
        if not isinstance(item.measured, Missing):
            name = " of batch ".join(item.id.split("-")[-2:]).replace("_", " and ")
            rest = item.measured.amount - item.end
            yield exact(f"residual({name})", item.unit, rest, source).exactly(0)


# ---------------------------------------------------------------------------- processes of calls


def count(name: str, number: float, calls: Sequence[Calls]) -> Quantity:
    """A number about calls, from the record that holds them."""
    return exact(name, "1", number, calls[0].run.file)


# ------------------------------------------------------------------------------ set thresholds


def start_rows(starts: Iterable[Calls]) -> Iterator[Mapping[str, Content]]:
    """Print how many processes map pages around the predicted start and end of each setting."""
    in_order = sorted(starts, key=attrgetter("name", "threshold", "batch"))
    for (layer, threshold), calls in groupby(in_order, attrgetter("name", "threshold")):
        sweep = list(calls)
        start, end = sweep[0].start, sweep[0].end
        yield {
            "Layer": layer.replace("x", " × "),
            "T in MiB": count("threshold in MiB", threshold >> 20, sweep),
            "Start": count("predicted start", start, sweep),
            "End": count("predicted end", end, sweep),
            "Missing (B)": least_missing(sweep),
            "Before": mapping_processes(sweep, start - 1),
            "At start": mapping_processes(sweep, start),
            "At end": mapping_processes(sweep, end),
        }


def mapping_processes(sweep: Sequence[Calls], batch: int) -> Quantity:
    """Count the processes that map pages at the first measured size of at least ``batch``."""
    for calls in sweep:
        if calls.batch >= batch and calls.mapping:
            return count("processes", sum(calls.mapping), sweep)
    return absent("processes", "1", "not measured")


def extreme_start(calls: Sequence[Calls], choose: Callable[[Iterable[int]], int]) -> Quantity:
    """Return the smallest or largest predicted start."""
    return count("predicted start", choose([one.start for one in calls]), calls)


def least_missing(calls: Sequence[Calls]) -> Quantity:
    """Return the fewest bytes that the image before a predicted start lacks to the threshold."""
    least = min(one.missing_bytes(one.start - 1) for one in calls)
    return exact("missing bytes", "B", least, calls[0].run.file)


# ---------------------------------------------------------------------------- single processes


def excess_pages(calls: Iterable[Calls]) -> list[float]:
    """Pages of each process beyond those that the free top of its heap announces."""
    excess = []
    for one in calls:
        for top, pages in zip(one.medians("free_top"), one.medians("page_faults"), strict=False):
            excess.append(pages - theory.pages_of_top(top, one.threshold))
    return excess


def number_of_processes(calls: Sequence[Calls]) -> Quantity:
    """Count the batch sizes and settings, each in each process."""
    return count("calls", len(excess_pages(calls)), calls)


def number_of_settings(calls: Sequence[Calls]) -> Quantity:
    """Count the settings, each with its batch size."""
    return count("settings", len(calls), calls)


def least_slowdown(calls: Sequence[Calls]) -> Quantity:
    """Divide the least time of a process that maps pages by the longest of one that does not.

    The smallest of such ratios at the batch sizes and thresholds at which there are both.
    """
    times: dict[tuple[int, int], dict[bool, list[float]]] = {}
    for one in calls:
        by_kind = times.setdefault((one.threshold, one.batch), {})
        for maps, time in zip(one.mapping, one.medians("time"), strict=False):
            by_kind.setdefault(maps, []).append(time)
    ratios = [min(both[True]) / max(both[False]) for both in times.values() if len(both) == 2]
    if not ratios:
        return absent("slowdown", "1", "no batch size has processes of both kinds")
    return count("slowdown", min(ratios), calls)
