"""What can be measured, in plain lines; pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from experiments.harness.selection import default_levels
from experiments.harness.study import Factor, Study
from experiments.harness.text import period_text

_MEANING: Final = (
    "A full run stops timing at its limit, and often ends long before; what is measured once and",
    "counted comes on top. list STUDY tells its factors and plans.",
)


def overview(studies: Iterable[Study]) -> str:
    """A line a study: its name, the cases and the time limit of a full run, and its question."""
    rows = [("STUDY", "CASES", "TIME LIMIT", "QUESTION"), *map(_row, studies)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{name:<{widths[0]}}  {cases:>{widths[1]}}  {longest:>{widths[2]}}  {question}"
        for name, cases, longest, question in rows
    ]
    return "\n".join((*lines, "", *_MEANING))


def _row(study: Study) -> tuple[str, str, str, str]:
    budget = study.full.protocol.budget_s
    longest = "–" if budget is None else f"{period_text(budget)}"
    return study.name, str(_count(study, quick=False)), longest, study.question


def listing(studies: Iterable[Study]) -> str:
    """Every study with its factors and plans."""
    return "\n\n".join(_study(study) for study in studies)


def _study(study: Study) -> str:
    return "\n".join(
        (
            f"{study.name}: {study.question}",
            *(f"  factor {_factor(factor)}" for factor in study.factors),
            f"  full plan: {_plan(study, quick=False)}",
            f"  quick plan (--quick): {_plan(study, quick=True)}",
            *_on_gpu(study.on_gpu),
        )
    )


def _factor(factor: Factor) -> str:
    more = " (--set takes any whole number from 1 on)" if factor.any_count else ""
    return f"{factor.name}: {', '.join(map(str, factor.levels))}{more}"


def _on_gpu(study: Study | None) -> tuple[str, ...]:
    """The plans that are other ones on a GPU."""
    if study is None:
        return ()
    return (
        f"  full plan with --device cuda: {_plan(study, quick=False)}",
        f"  quick plan with --device cuda: {_plan(study, quick=True)}",
    )


def _plan(study: Study, *, quick: bool) -> str:
    plan = study.quick if quick else study.full
    return f"{_count(study, quick=quick)} cases, {plan.summary}"


def _count(study: Study, *, quick: bool) -> int:
    return len(study.cases(default_levels(study, quick=quick)))
