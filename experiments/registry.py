"""The studies that can be measured, found by their files and imported only when asked for.

A module of a study defines ``STUDY``, an ``experiments.harness.study.Study``, and does not import
torch at its top, so that listing the studies stays quick and works without torch.
"""

from __future__ import annotations

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


def load(name: str) -> Study:
    """The study called ``name``; raises ``UsageError`` that lists the possible names."""
    if name not in STUDIES:
        raise UsageError(f"There is no study {name!r}; possible are {', '.join(sorted(STUDIES))}.")
    study = import_module(STUDIES[name]).STUDY
    assert isinstance(study, Study)
    return study


def overview() -> str:
    """A line a study: its name, the cases and the time limit of a full run, and its question."""
    lines = [f"{'STUDY':<18} {'CASES':>5}  {'TIME LIMIT':>10}  QUESTION"]
    for study in map(load, STUDIES):
        cases = len(study.cases(study.levels(quick=False)))
        longest = period_text(study.full.budget_s) if study.full.budget_s else "–"
        lines.append(f"{study.name:<18} {cases:>5}  {longest:>10}  {study.question}")
    more = "A full run stops timing at its limit; what is measured once and counted comes on top."
    return "\n".join((*lines, "", f"{more} list STUDY tells its factors and plans."))


def described(study: Study) -> str:
    """A study with its factors and plans."""
    lines = [f"{study.name}: {study.question}"]
    for factor in study.factors:
        more = " (--set takes any whole number from 1 on)" if factor.any_count else ""
        lines.append(f"  factor {factor.name}: {', '.join(map(str, factor.levels))}{more}")
    for where, device in (("", "cpu"), (" with --device cuda", "cuda")):
        each = study.on(device)
        for plan in (each.full, each.quick) if device == "cpu" or study.on_gpu else ():
            quick = plan.plan == "quick"
            cases = len(each.cases(each.levels(quick=quick)))
            option = " (--quick)" if quick and not where else where
            lines.append(f"  {plan.plan} plan{option}: {cases} cases, {_effort(plan)}")
    return "\n".join(lines)


def _effort(plan: Protocol) -> str:
    """Processes, samples and time budget in words."""
    most = "" if plan.budget_s is None else f", {period_text(plan.budget_s)} at most"
    return (
        f"processes: {', '.join(f'{n} {policy}' for policy, n in plan.processes.items())}; in each "
        f"{plan.minimum_samples} to {plan.maximum_samples} samples, about {plan.case_budget_s:g} s "
        f"a case{most}"
    )
