"""Results of conv_scaling: counts of processes whose calls map pages, beside predictions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from report.core.missing import Missing
from report.core.text.format import MISSING
from report.paper.study import Content
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, Statement, absent, exact
from report.studies.conv_scaling.runs import Calls
from report.theory.reconciliation import Reconciliation


def without_residual(items: Iterable[Reconciliation], source: str) -> Iterator[Statement]:
    """State that the terms of each reconciliation sum to the measured count, to the unit."""
    for item in items:
        if not isinstance(item.measured, Missing):
            name = " of batch ".join(item.id.split("-")[-2:]).replace("_", " and ")
            residual = item.measured.amount - item.end
            yield exact(f"residual({name})", item.unit, residual, source).exactly(0)


def count(name: str, number: float, calls: Sequence[Calls], unit: str = "1") -> Quantity:
    """Return a number about calls as a quantity of the record of the first."""
    return exact(name, unit, number, calls[0].run.file)


def decimals(ratios: Iterable[Quantity]) -> str:
    """Print ratios to two decimals, separated by commas."""
    values = map(point, ratios)
    return ", ".join(MISSING if isinstance(v, Missing) else f"{v:.2f}" for v in values)


def thousands(pages: Sequence[float]) -> str:
    """Print the smallest and the largest number of pages, in thousands."""
    ends = (min(pages), max(pages)) if pages else ()
    texts = [f"{end / 1000:.{1 if end < 10_000 else 0}f}" for end in ends]
    return " to ".join(dict.fromkeys(texts)) or MISSING


def first_batches(calls: Iterable[Calls]) -> dict[str, dict[int, int]]:
    """Return layer → predicted start → first batch size at which a process maps pages."""
    first: dict[str, dict[int, int]] = {}
    for case in sorted(calls, key=attrgetter("batch")):
        if any(case.maps_pages):
            first.setdefault(case.name, {}).setdefault(case.start, case.batch)
    return first


def settings(calls: Sequence[Calls], early: int | None = None) -> Quantity:
    """Count the settings whose pages begin ``early`` images before the start, or all for None."""
    images_early = list[int]()
    for batches in first_batches(calls).values():
        images_early += [start - first for start, first in batches.items()]
    number = len(images_early) if early is None else images_early.count(early)
    return count("settings", number, calls)


def least_missing(calls: Sequence[Calls]) -> Quantity:
    """Return the fewest bytes that one image below a predicted start lacks to the threshold."""
    missing = min(case.missing_bytes(case.start - 1) for case in calls)
    return count("missing bytes", missing, calls, "B")


def start_rows(starts: Iterable[Calls]) -> Iterator[Mapping[str, Content]]:
    """Tabulate how many processes map pages around the predicted start and end of each setting."""
    in_order = sorted(starts, key=attrgetter("name", "threshold", "batch"))
    for (layer, threshold), cases in groupby(in_order, attrgetter("name", "threshold")):
        sweep = list(cases)
        start, end = sweep[0].start, sweep[0].end
        at_start = [calls.maps_pages for calls in sweep if calls.batch == start]
        yield {
            "Layer": layer.replace("x", " × "),
            "T in MiB": count("threshold in MiB", threshold >> 20, sweep),
            "Start": count("predicted start", start, sweep),
            "End": count("predicted end", end, sweep),
            "Missing (B)": least_missing(sweep),
            "Before": mapping_processes(sweep, start - 1),
            "At start": mapping_processes(sweep, start),
            "At end": mapping_processes(sweep, end),
            "Of": count("processes", sum(map(len, at_start)), sweep),
        }


def mapping_processes(sweep: Sequence[Calls], batch: int) -> Quantity:
    """Count the processes that map pages at the first measured size of at least ``batch``."""
    for calls in sweep:
        if calls.batch >= batch and calls.maps_pages:
            return count("processes", sum(calls.maps_pages), sweep)
    return absent("processes", "1", "not measured")


def process_calls(calls: Sequence[Calls]) -> Quantity:
    """Count the processes, over all cases, that read the free bytes at the heap's top."""
    return count("calls", sum(len(case.medians("free_top")) for case in calls), calls)


def least_slowdown(calls: Sequence[Calls]) -> Quantity:
    """Return the least ratio of times with and without pages, between processes of one case."""
    # Threshold and batch size → whether the process maps pages → times (s).
    times: dict[tuple[int, int], dict[bool, list[float]]] = {}
    for case in calls:
        by_mapping = times.setdefault((case.threshold, case.batch), {})
        for maps_pages, time in zip(case.maps_pages, case.medians("time"), strict=False):
            by_mapping.setdefault(maps_pages, []).append(time)
    ratios = [min(both[True]) / max(both[False]) for both in times.values() if len(both) == 2]
    if not ratios:
        return absent("slowdown", "1", "no batch size has processes of both kinds")
    return count("slowdown", min(ratios), calls)
