"""What a run rests on: its processes, what disturbed them, and a machine that changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Final

from report.evidence.repetition import spread_of_runs
from report.missing import Missing
from report.paper.values import Value, declare
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, recorded
from report.statistics.estimates import CONFIDENCE
from report.studies.backend_speedup.getters import NO_CASE, Getter, count_of, nothing
from report.studies.backend_speedup.measured import Run, Variant, factors_of
from report.studies.backend_speedup.model import Prediction, predictions
from report.studies.backend_speedup.subject import NETWORK_NAMES, Setting

#: The working set (B) of the copy that is named where the machine changed.
_COPIED: Final = 1 << 25
#: The fewest processes that bound a median: all of n lie on one side of it in 2 of 2ⁿ draws.
ENOUGH: Final = math.ceil(1 - math.log2(1 - CONFIDENCE))
#: From so many page faults an iteration on, they are no rest of the first one.
FAULTS: Final = 1000


def _rounds(of: str, *, disturbed: bool) -> Getter:
    """How many processes timed a case with a library, or with any; of them the disturbed ones."""

    def count(run: Run) -> int | Missing:
        every = [case for stored in run.stored.runs for case in stored.record.cases]
        rounds = [r for c in every if of in ("", c.factors.get("backend")) for r in c.rounds]
        if not rounds:
            return NO_CASE
        return sum(r.disturbance is not None or not disturbed for r in rounds)

    return count_of("processes", count)


def _timed(run: Run) -> list[tuple[Setting, Variant]]:
    """Every timed case in float32."""
    trained = (run.training(network) for network in NETWORK_NAMES)
    swept = (setting for network in NETWORK_NAMES for setting in run.scaled(network))
    settings = dict.fromkeys([*(s for s in trained if s is not None), *swept])
    return [(s, variant) for s in settings for variant in run.variants(s)]


def _processes(choose: Callable[[list[int]], int]) -> Getter:
    """Of the numbers of processes that timed each case."""

    def count(run: Run) -> int | Missing:
        found = [run.processes(*each) for each in _timed(run)]
        return choose(found) if found else NO_CASE

    return count_of("cases by their processes", count)


def _between(choose: Callable[[list[float]], float]) -> Getter:
    """Of the ratios of the largest to the smallest median of the pooled runs, case by case."""
    return lambda run: spread_of_runs(choose, run, (factors_of(*each) for each in _timed(run)))


def _ceiling(operation: str, moment: str, working_set: int | None = None) -> Getter:
    """The median rate of an operation at one moment of the run."""

    def found(run: Run) -> Quantity:
        unit = "B/s" if operation == "copy" else "FLOP/s"
        rates = [
            c.work / median(c.samples)
            for c in run.stored.record.ceilings
            if (c.operation, c.moment, c.dtype) == (operation, moment, "float32")
            and working_set in (None, c.working_set)
        ]
        name = f"{operation} {moment}"
        return recorded(name, unit, rates[0] if rates else NO_CASE, run.file)

    return found


def page_faults(run: Run, setting: Setting, variant: Variant) -> float:
    """Pages that an iteration maps, in the median; 0 where they were not counted."""
    found = run.samples("page_faults", factors_of(setting, variant))
    return 0.0 if isinstance(found, Missing) else float(median(found))


def worst(run: Run) -> Prediction | None:
    """The case that the model misses most."""
    return max(predictions(run), key=lambda each: each.error(), default=None)


def _of_worst_faults(run: Run) -> Quantity:
    case = worst(run)
    pages = 0 if case is None else round(page_faults(run, case.setting, case.variant))
    return recorded("pages that the worst case maps", "1", pages or NO_CASE, run.file)


def _worst_time(run: Run) -> Quantity:
    case = worst(run)
    return nothing("s") if case is None else run.time(case.setting, case.variant)


def _pages_share(run: Run) -> Quantity:
    """The share of the worst case's time that its pages cost at the price of a bare mapping."""
    return _of_worst_faults(run) / run.peak_rate("page_mapping") / _worst_time(run)


def disturbed(runs: Sequence[Run]) -> list[Run]:
    """The runs in which anything else on the machine disturbed a process."""
    counts = ((run, point(CONDITIONS["rounds_disturbed"](run))) for run in runs)
    return [run for run, count in counts if not isinstance(count, Missing) and count]


CONDITIONS: Final[dict[str, Getter]] = {
    "pooled_runs": count_of("runs", lambda run: len(run.stored.runs)),
    "timed_cases": _processes(len),
    "fewest_processes": _processes(min),
    "few_processes": _processes(lambda found: sum(number < ENOUGH for number in found)),
    "runs_apart": _between(median),
    "runs_furthest": _between(max),
    "rounds": _rounds("", disturbed=False),
    "rounds_disturbed": _rounds("", disturbed=True),
    "jax_rounds": _rounds("jax", disturbed=False),
    "jax_disturbed": _rounds("jax", disturbed=True),
    **{f"convolution_{m}": _ceiling("convolution", m) for m in ("before", "after")},
    **{f"copy_{m}": _ceiling("copy", m, _COPIED) for m in ("before", "after")},
    "worst_faults": _of_worst_faults,
    "pages_share": _pages_share,
}


def disturbed_values(runs: Sequence[Run]) -> Iterator[Value]:
    """How many measurements each of ``runs`` made, and how many were disturbed."""
    for number, run in enumerate(runs, start=1):
        for id_ in ("rounds", "rounds_disturbed"):
            yield declare(f"{id_}_{number}", CONDITIONS[id_](run))
