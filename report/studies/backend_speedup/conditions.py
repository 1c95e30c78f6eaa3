"""What a run rests on: its processes, and how many were disturbed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from report.instruments import gates
from report.missing import Missing
from report.statistics.estimates import CONFIDENCE
from report.studies.backend_speedup.getters import NO_CASE, Getter, count_of
from report.studies.backend_speedup.measured import Run, Variant
from report.studies.backend_speedup.subject import Setting

#: The fewest processes that bound a median: all of n lie on one side of it in 2 of 2ⁿ draws.
ENOUGH: Final = math.ceil(1 - math.log2(1 - CONFIDENCE))


def _rounds(*, disturbed: bool) -> Getter:
    """How many processes timed a case and were watched, or how many of them were disturbed."""

    def count(run: Run) -> int | Missing:
        found = gates.disturbed(stored.record for stored in run.stored.runs)
        if found is None:
            return Missing(f"not monitored on {run.label}")
        return found[0 if disturbed else 1]

    return count_of("processes", count)


def _timed(run: Run) -> list[tuple[Setting, Variant]]:
    """Every timed case in float32."""
    settings = dict.fromkeys([*filter(None, [run.training()]), *run.scaled()])
    return [(s, variant) for s in settings for variant in run.variants(s)]


def _processes(choose: Callable[[list[int]], int]) -> Getter:
    """Of the numbers of processes that timed each case."""

    def count(run: Run) -> int | Missing:
        found = [run.processes(*each) for each in _timed(run)]
        return choose(found) if found else NO_CASE

    return count_of("cases by their processes", count)


CONDITIONS: Final[dict[str, Getter]] = {
    "pooled_runs": count_of("runs", lambda run: len(run.stored.runs)),
    "timed_cases": _processes(len),
    "fewest_processes": _processes(min),
    "few_processes": _processes(lambda found: sum(number < ENOUGH for number in found)),
    "rounds": _rounds(disturbed=False),
    "rounds_disturbed": _rounds(disturbed=True),
}
