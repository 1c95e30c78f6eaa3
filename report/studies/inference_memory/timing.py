"""What the prose says of time: how far work alone predicts it, and how weak its evidence is."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Final

from report.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, recorded
from report.quantity.operations import at_least, at_most
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.sweeps import sweep

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


TIME_VALUES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "roof_least": _extreme(at_most),
    "roof_most": _extreme(at_least),
    "roof_median": _median_over_roof,
    "roof_calls": lambda run: recorded("calls over roof", "1", len(_over_roof(run)), run.file),
    "timed": lambda run: recorded("timed calls", "1", len(run.timed(run.calls)), run.file),
    "one_process": one_process,
}
