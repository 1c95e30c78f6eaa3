"""Results of conv_scaling: numbers of processes whose calls map pages, and predicted numbers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from report.core.missing import Missing
from report.core.text.format import MISSING
from report.paper.study import Content
from report.quantity.evaluation import point_estimate
from report.quantity.expression import Quantity, Statement, exact_number, missing_number
from report.studies.conv_scaling.runs import Calls
from report.theory.reconciliation import Reconciliation


def sums_are_exact(items: Iterable[Reconciliation], source: str) -> Iterator[Statement]:
    """State for each reconciliation that its terms add up exactly to the measured count."""
    for item in items:
        # An id ends with a pass or a device, and a batch size, as in ``…-forward_backward-64``.
        name = " of batch ".join(item.id.split("-")[-2:]).replace("_", " and ")
        yield exact_number(f"residual({name})", item.unit, item.residual, source).exactly(0)


def quantity_of(name: str, number: float, calls: Sequence[Calls], unit: str = "1") -> Quantity:
    """Return a number about calls as a quantity whose source is the first call's record."""
    return exact_number(name, unit, number, calls[0].run.file)


def format_ratios(ratios: Iterable[Quantity]) -> str:
    """Format ratios with two decimals, separated by commas."""
    values = map(point_estimate, ratios)
    return ", ".join(MISSING if isinstance(v, Missing) else f"{v:.2f}" for v in values)


def format_thousands(pages: Sequence[float]) -> str:
    """Format the smallest and the largest number of pages, in thousands."""
    ends = (min(pages), max(pages)) if pages else ()
    texts = [f"{end / 1000:.{1 if end < 10_000 else 0}f}" for end in ends]
    return " to ".join(dict.fromkeys(texts)) or MISSING


def first_batches(calls: Iterable[Calls]) -> dict[str, dict[int, int]]:
    """Return layer → predicted start of mapping → first measured batch size with mapped pages."""
    first: dict[str, dict[int, int]] = {}
    for case in sorted(calls, key=attrgetter("batch")):
        if any(case.maps_pages):
            first.setdefault(case.name, {}).setdefault(case.predicted_start, case.batch)
    return first


def count_settings(calls: Sequence[Calls], early: int | None = None) -> Quantity:
    """Count settings (layer, predicted start) whose first batch with pages is start − ``early``.

    If ``early`` is None, counts all settings.
    """
    images_early = list[int]()
    for first_batch_of_start in first_batches(calls).values():
        images_early += [start - first for start, first in first_batch_of_start.items()]
    number = len(images_early) if early is None else images_early.count(early)
    return quantity_of("settings", number, calls)


def fewest_missing_bytes(calls: Sequence[Calls]) -> Quantity:
    """Return the fewest bytes that any call on (start − 1) images lacks to the threshold."""
    missing = min(case.missing_bytes(case.predicted_start - 1) for case in calls)
    return quantity_of("missing bytes", missing, calls, "B")


def start_rows(cliffs: Iterable[Calls]) -> Iterator[Mapping[str, Content]]:
    """Tabulate how many processes map pages around start and end, per layer and threshold."""
    in_order = sorted(cliffs, key=attrgetter("name", "threshold", "batch"))
    for (layer, threshold), cases in groupby(in_order, attrgetter("name", "threshold")):
        sweep = list(cases)
        start, end = sweep[0].predicted_start, sweep[0].predicted_end
        at_start = [calls.maps_pages for calls in sweep if calls.batch == start]
        yield {
            "Layer": layer.replace("x", " × "),
            "T in MiB": quantity_of("threshold in MiB", threshold >> 20, sweep),
            "Start": quantity_of("predicted start", start, sweep),
            "End": quantity_of("predicted end", end, sweep),
            "Missing (B)": fewest_missing_bytes(sweep),
            "Before": mapping_processes(sweep, start - 1),
            "At start": mapping_processes(sweep, start),
            "At end": mapping_processes(sweep, end),
            "Of": quantity_of("processes", sum(map(len, at_start)), sweep),
        }


def mapping_processes(sweep: Sequence[Calls], batch: int) -> Quantity:
    """Count the processes that map pages at the first measured size of at least ``batch``."""
    for calls in sweep:
        if calls.batch >= batch and calls.maps_pages:
            return quantity_of("processes", sum(calls.maps_pages), sweep)
    return missing_number("processes", "1", "not measured")


def count_processes(calls: Sequence[Calls]) -> Quantity:
    """Count the processes, over all cases, that read the free bytes at the heap's top."""
    return quantity_of("calls", sum(len(case.medians("free_top")) for case in calls), calls)


def smallest_slowdown(calls: Sequence[Calls]) -> Quantity:
    """Divide the time of a process that maps pages by the time of one that does not.

    Returns the smallest ratio of two processes of one case.
    """
    # Threshold and batch size → whether the process maps pages → times (s).
    times: dict[tuple[int, int], dict[bool, list[float]]] = {}
    for case in calls:
        by_mapping = times.setdefault((case.threshold, case.batch), {})
        for maps_pages, time in zip(case.maps_pages, case.medians("time"), strict=False):
            by_mapping.setdefault(maps_pages, []).append(time)
    mixed = (by_mapping for by_mapping in times.values() if len(by_mapping) == 2)
    ratios = [min(by_mapping[True]) / max(by_mapping[False]) for by_mapping in mixed]
    if not ratios:
        return missing_number("slowdown", "1", "no batch size has processes of both kinds")
    return quantity_of("slowdown", min(ratios), calls)
