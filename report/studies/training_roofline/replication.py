"""How far two runs of a machine agree on the steps that several processes timed in both."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from report.evidence.repetition import between_runs, hours_between, repetitions
from report.missing import Missing
from report.paper.values import Value
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity
from report.studies.training_roofline.declared import declared, fixed
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.subject import IMAGE


def repeated_runs(runs: Sequence[Run], primary: Run | None) -> list[Run]:
    """The machines that were measured more than once, that of the prose first."""
    ordered = sorted(runs, key=lambda run: run is not primary)
    return [run for run in ordered if run.stored.others]


def agreement_values(runs: Sequence[Run]) -> Iterator[Value]:
    """How far two runs of each machine agree, told apart by a number behind the id."""
    for place, run in enumerate(runs, start=1):
        found = {f"{id_}_{place}": each for id_, each in _agreement(run).items()}
        yield from declared(found)


def _agreement(run: Run) -> dict[str, Quantity]:
    """Two runs of a machine, on the steps that several processes timed in both."""
    known = [each for each in repetitions(run) if each.bounded]
    steps = [each for each in known if each.case.factors.get("subject") == "training"]
    large = [each for each in steps if each.case.factors["image"] == IMAGE]
    files = tuple(alone.file for alone in run.alone()[:2])
    widths = [est.high / est.low for each in steps for est in (each.first, each.second)]
    counts = {
        "repeated_hours": hours_between(run),
        "repeated": len(steps),
        "repeated_agree": sum(each.agrees for each in steps),
        "repeated_overlap": sum(each.overlaps for each in steps),
        "repeated_image": IMAGE,
        "repeated_large": len(large),
        "repeated_large_agree": sum(each.agrees for each in large),
        "repeated_widest": max(widths)
        if widths
        else Missing(f"no step was timed twice on {run.label}"),
    }
    factors = [each.case.factors for each in steps]
    return {
        **{
            id_: to_digits(fixed(id_.replace("_", " "), n, "1", *files), 3)
            for id_, n in counts.items()
        },
        "repeated_usually": to_digits(between_runs(statistics.median, run, factors), 3),
        "repeated_most": to_digits(between_runs(max, run, factors), 3),
    }
