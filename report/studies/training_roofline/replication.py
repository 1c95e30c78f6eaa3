"""How far the runs of a machine agree on the steps that several processes timed in both."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Final

from report.evidence.repetition import agreement, of_all, repetitions, spread_of_runs
from report.paper.values import Value, declare
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, absent
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.subject import IMAGE

#: What is printed as a share.
_SHARE: Final = "repeated_expected"


def repeated_runs(runs: Sequence[Run], primary: Run | None) -> list[Run]:
    """The machines that were measured more than once, that of the prose first."""
    ordered = sorted(runs, key=lambda run: run is not primary)
    return [run for run in ordered if run.stored.others]


def agreement_values(runs: Sequence[Run]) -> Iterator[Value]:
    """How far the runs of each machine agree, told apart by a number behind the id."""
    for place, run in enumerate(runs, start=1):
        for id_, each in _agreement(run).items():
            yield declare(f"{id_}_{place}", each, "percent" if id_ == _SHARE else "measured")


def _agreement(run: Run) -> dict[str, Quantity]:
    """The runs of a machine, on the steps that several processes timed in two."""
    known = [each for each in repetitions(run) if each.bounded]
    steps = [each for each in known if each.case.factors.get("subject") == "training"]
    large = [each for each in steps if each.case.factors["image"] == IMAGE]
    widths = [est.high / est.low for each in steps for est in (each.first, each.second)]
    widest = "upper / lower end of an interval"
    none = absent(widest, "1", f"no step was timed twice on {run.label}")
    factors = [each.case.factors for each in steps]
    return {
        **agreement(run, steps),
        "repeated_image": of_all(run, "pixels a side of the largest images", IMAGE),
        "repeated_large": of_all(run, "pairs of times of these images", len(large)),
        "repeated_large_agree": of_all(
            run, "pairs of times of these images that agree", sum(each.agrees for each in large)
        ),
        "repeated_widest": to_digits(of_all(run, widest, max(widths)) if widths else none, 3),
        "repeated_usually": to_digits(spread_of_runs(statistics.median, run, factors), 3),
        "repeated_most": to_digits(spread_of_runs(max, run, factors), 3),
    }
