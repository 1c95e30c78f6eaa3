"""The studies that can be measured, found by their files and imported only when asked for.

A module of a study defines ``STUDY``, an ``experiments.harness.study.Study``, and does not import
torch at its top, so that listing the studies stays quick and works without torch.
"""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Final

from experiments.harness.study import Study
from experiments.machine.text import period_text
from report.errors import UsageError

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


def list_studies(options: Namespace) -> int:
    """Print all studies in a line each, or all about those that are named."""
    if options.study:
        print("\n\n".join(_described(load(name)) for name in options.study))
        return 0
    print(f"{'STUDY':<18} {'CASES':>5}  {'TIME LIMIT':>10}  QUESTION")
    for study in map(load, STUDIES):
        cases = len(study.cases(study.levels(quick=False)))
        limit = period_text(study.full.budget_s) if study.full.budget_s else "–"
        print(f"{study.name:<18} {cases:>5}  {limit:>10}  {study.question}")
    more = "A full run stops timing at its limit; what is measured once and counted comes on top."
    print(f"\n{more} list STUDY tells its factors and plans.")
    return 0


def _described(study: Study) -> str:
    """A study with its factors and plans."""
    lines = [f"{study.name}: {study.question}"]
    for factor in study.factors:
        more = " (--set takes any whole number from 1 to 10⁹)" if factor.any_count else ""
        lines.append(f"  factor {factor.name}: {', '.join(map(str, factor.levels))}{more}")
    for device in ("cpu", "cuda") if study.on_gpu else ("cpu",):
        each, where = study.on(device), "" if device == "cpu" else " --device cuda"
        for option, plan in (("", each.full), (" --quick", each.quick)):
            cases = len(each.cases(each.levels(quick=bool(option))))
            processes = ", ".join(f"{n} {policy}" for policy, n in plan.processes.items())
            lines.append(f"  run {study.name}{option}{where}: {cases} cases by {processes}")
    return "\n".join(lines)
