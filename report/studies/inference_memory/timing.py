"""What the prose says of time: how far work alone predicts it, and how weak its evidence is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from typing import Final

from report.evidence.ceilings import has_moved
from report.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, recorded
from report.quantity.operations import at_least, at_most
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.sweeps import amp_precision, sweep

_NO_TIME: Final = absent("time", "1", "no such call was timed")


def _over_roof(run: Run) -> list[Quantity]:
    """Measured time over that of the work at the ceiling, of the plain calls of every network."""
    calls = (c for network in run.networks() for c in run.timed(sweep(run, network)))
    found = (1 / run.utilisation(call) for call in calls)
    return [each for each in found if not each.missing]


def _extreme(choose: Callable[..., Quantity]) -> Callable[[Run], Quantity]:
    return lambda run: choose(*each) if (each := _over_roof(run)) else _NO_TIME


def _median_over_roof(run: Run) -> Quantity:
    """The median over calls, each by its own median."""
    ratios = [ratio for each in _over_roof(run) if not isinstance(ratio := point(each), Missing)]
    if not ratios:
        return _NO_TIME
    return recorded("median of time over roof", "1", statistics.median(ratios), run.file)


def one_process(run: Run) -> Quantity:
    """How many of the timed calls a single process measured."""
    if not run.timed(run.calls):
        return _NO_TIME
    return recorded("calls timed in one process", "1", run.timed_alone, run.file)


def _changes(run: Run, dtype: str) -> Iterator[float]:
    """Rate after the series over that before it, of each matrix product in ``dtype``."""
    medians: dict[tuple[str, str], dict[str, float]] = {}
    for each in run.stored.record.ceilings:
        if each.operation == "matrix_product" and each.dtype == dtype and each.samples:
            of = medians.setdefault((each.instrument or "", each.size), {})
            of[each.moment] = statistics.median(map(float, each.samples))
    for of in medians.values():
        if {"before", "after"} <= set(of):
            yield of["before"] / of["after"]


def drift(run: Run, dtype: str) -> Quantity:
    """The rate of one matrix product after the series over before: the one that changed most."""
    name = f"change of a product in {dtype}"
    largest = max(_changes(run, dtype), key=lambda ratio: abs(math.log(ratio)), default=None)
    if largest is None:
        return absent(name, "1", f"no product was measured before and after on {run.label}")
    return recorded(name, "1", largest, run.file)


def drifted(run: Run) -> bool:
    """Whether any matrix product is known to have moved between both ends of the series."""
    return any(has_moved(point(drift(run, d) - 1)) for d in ("float32", amp_precision(run)))


TIME_VALUES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "roof_least": _extreme(at_most),
    "roof_most": _extreme(at_least),
    "roof_median": _median_over_roof,
    "roof_calls": lambda run: recorded("calls over roof", "1", len(_over_roof(run)), run.file),
    "timed": lambda run: recorded("timed calls", "1", len(run.timed(run.calls)), run.file),
    "one_process": one_process,
    "drift": lambda run: drift(run, "float32"),
    "drift_reduced": lambda run: drift(run, amp_precision(run)),
}
