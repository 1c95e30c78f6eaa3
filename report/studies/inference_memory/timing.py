"""What the prose says of time: how far work alone predicts it, and how weak its evidence is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from report.evidence.ceilings import has_moved
from report.evidence.repetition import spread_of_runs
from report.missing import Missing
from report.quantity.evaluation import point, to_digits
from report.quantity.expression import Quantity, absent, recorded
from report.quantity.operations import at_least, at_most
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import Call
from report.studies.inference_memory.sweeps import amp_precision, plain, sweep, tiled_calls

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


def _process_medians(run: Run, calls: Sequence[Call]) -> list[float]:
    """The median (s) of every process of some calls."""
    found = (run.by_process("time", call.factors) for call in calls)
    known = (each for each in found if not isinstance(each, Missing))
    return [statistics.median(map(float, p.samples)) for each in known for p in each]


def fastest_tile(run: Run) -> Quantity:
    """The fastest process of all tiled calls (s)."""
    times = _process_medians(run, tiled_calls(run))
    if not times:
        return absent("fastest process with tiles", "s", "no tiled call was timed")
    return to_digits(recorded("fastest process with tiles", "s", min(times), run.file), 2)


def slowest_whole(run: Run) -> Quantity:
    """The slowest process of the same call on whole maps (s)."""
    times = _process_medians(run, tuple({plain(call): None for call in tiled_calls(run)}))
    if not times:
        return absent("slowest process of whole maps", "s", "the call without tiles was not timed")
    return to_digits(recorded("slowest process of whole maps", "s", max(times), run.file), 2)


def tiles_slower(run: Run) -> bool:
    """Whether the slowest process of whole maps took less time than any process with tiles."""
    fastest, slowest = point(fastest_tile(run)), point(slowest_whole(run))
    return isinstance(fastest, float) and isinstance(slowest, float) and slowest < fastest


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


def _between_runs(choose: Callable[[list[float]], float]) -> Callable[[Run], Quantity]:
    """Of the ratios of the larger to the smaller median of the pooled runs, call by call."""
    return lambda run: spread_of_runs(choose, run, (c.factors for c in run.timed(run.calls)))


TIME_VALUES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "roof_least": _extreme(at_most),
    "roof_most": _extreme(at_least),
    "roof_median": _median_over_roof,
    "roof_calls": lambda run: recorded("calls over roof", "1", len(_over_roof(run)), run.file),
    "timed": lambda run: recorded("timed calls", "1", len(run.timed(run.calls)), run.file),
    "one_process": one_process,
    "runs_median": _between_runs(statistics.median),
    "runs_most": _between_runs(max),
    "runs": lambda run: recorded("pooled runs", "1", len(run.stored.runs), run.file),
    "fastest_tile": fastest_tile,
    "slowest_whole": slowest_whole,
    "drift": lambda run: drift(run, "float32"),
    "drift_reduced": lambda run: drift(run, amp_precision(run)),
}
