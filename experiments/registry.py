"""The studies that can be measured, found by their files and imported only when asked for.

A module of a study defines ``STUDY``, an ``experiments.harness.study.Study``, and does not import
torch at its top, so that listing the studies stays quick and works without torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from experiments.harness.study import Study, UsageError
from experiments.harness.text import period_text
from report.records.record import Protocol

#: Study → module: every file beside this one that defines ``STUDY``.
STUDIES: Final[dict[str, str]] = {
    path.stem: f"experiments.{path.stem}"
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if "\nSTUDY" in path.read_text("utf-8")
}

_MEANING: Final = (
    "A full run stops timing at its limit, and often ends long before; what is measured once and",
    "counted comes on top. list STUDY tells its factors and plans.",
)


def load(name: str) -> Study:
    """The study called ``name``; raises ``UsageError`` that lists the possible names."""
    if name not in STUDIES:
        raise UsageError(f"There is no study {name!r}; possible are {', '.join(sorted(STUDIES))}.")
    study = import_module(STUDIES[name]).STUDY
    assert isinstance(study, Study)
    return study


def overview(studies: Iterable[Study]) -> str:
    """A line a study: its name, the cases and the time limit of a full run, and its question."""
    lines = [f"{'STUDY':<18} {'CASES':>5}  {'TIME LIMIT':>10}  QUESTION"]
    for study in studies:
        budget, cases = study.full.budget_s, _count(study, quick=False)
        longest = "–" if budget is None else period_text(budget)
        lines.append(f"{study.name:<18} {cases:>5}  {longest:>10}  {study.question}")
    return "\n".join((*lines, "", *_MEANING))


def listing(studies: Iterable[Study]) -> str:
    """Every study with its factors and plans."""
    return "\n\n".join("\n".join(_lines(study)) for study in studies)


def _lines(study: Study) -> Iterator[str]:
    yield f"{study.name}: {study.question}"
    for factor in study.factors:
        more = " (--set takes any whole number from 1 on)" if factor.any_count else ""
        yield f"  factor {factor.name}: {', '.join(map(str, factor.levels))}{more}"
    for where, each in (("", study), (" with --device cuda", study.on_gpu)):
        if each is not None:
            cases = [_count(each, quick=quick) for quick in (False, True)]
            yield f"  full plan{where}: {cases[0]} cases, {_effort(each.full)}"
            yield f"  quick plan{where or ' (--quick)'}: {cases[1]} cases, {_effort(each.quick)}"


def _count(study: Study, *, quick: bool) -> int:
    return len(study.cases(study.levels(quick=quick)))


def _effort(plan: Protocol) -> str:
    """Processes, samples and time budget in words."""
    most = "" if plan.budget_s is None else f", {period_text(plan.budget_s)} at most"
    return (
        f"processes: {', '.join(f'{n} {policy}' for policy, n in plan.processes.items())}; in each "
        f"{plan.minimum_samples} to {plan.maximum_samples} samples, about {plan.case_budget_s:g} s "
        f"a case{most}"
    )
