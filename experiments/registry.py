"""Registry of the studies that can be measured, discovered by their files.

A study's module defines ``STUDY``, an ``experiments.harness.study.Experiment``.  Modules import
torch only inside functions, so that listing the studies is quick and works without torch.
"""

from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Final

from experiments.harness.study import Experiment
from experiments.machine.runtime import exit_raises
from experiments.machine.text import period_text
from report.core.errors import MeasurementError, UsageError, words_of

#: Study → module: all files in this folder that define ``STUDY``.
STUDIES: Final[dict[str, str]] = {
    path.stem: f"experiments.{path.stem}"
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if "\nSTUDY" in path.read_text("utf-8")
}
#: Studies that are measured by a separate command, not by ``run``.
_WITH_OWN_COMMAND: Final = {"compare": "experiments.compare.study"}


def module_of(name: str) -> str:
    """Return the name of a study's module; raises ``UsageError`` with the possible studies."""
    modules = {**STUDIES, **_WITH_OWN_COMMAND}
    if name not in modules:
        raise UsageError(f"There is no study {name!r}; possible are {', '.join(sorted(STUDIES))}.")
    return modules[name]


def load(name: str) -> Experiment:
    """Import a study.

    Raises ``UsageError`` for an unknown name, and ``MeasurementError`` if its code calls ``exit``.
    """
    module = module_of(name)
    try:
        with exit_raises():
            study = import_module(module).STUDY
    except SystemExit as error:
        raise MeasurementError(f"{name}: its code ended in {words_of(error)}.") from error
    assert isinstance(study, Experiment)
    return study


def list_studies(options: Namespace) -> int:
    """Print a line per study, or all factors and plans of named studies; return the exit code."""
    if options.study:
        print("\n\n".join(_describe(load(name)) for name in options.study))
        return 0
    print(f"{'STUDY':<18} {'CASES':>5}  {'TIME LIMIT':>10}  QUESTION")
    for study in map(load, STUDIES):
        cases = len(study.cases(study.levels(quick=False)))
        limit_s = study.plan.full.budget_s
        limit = period_text(limit_s) if limit_s else "–"
        print(f"{study.name:<18} {cases:>5}  {limit:>10}  {study.question}")
    print("\nThe limit is for times; memory and counters come on top. For plans: list STUDY.")
    return 0


def _describe(study: Experiment) -> str:
    """List the study's factors with their levels, and the commands that run it."""
    lines = [f"{study.name}: {study.question}"]
    for factor in study.factors:
        other_levels = " (--set: any whole number from 1 to 10⁹)" if factor.any_count else ""
        if factor.on_request:
            other_levels += f" (only with --set: {', '.join(map(str, factor.on_request))})"
        lines.append(f"  factor {factor.name}: {', '.join(map(str, factor.levels))}{other_levels}")
    for device in ("cpu", "cuda") if study.on_gpu else ("cpu",):
        variant = study.on(device)
        plan = variant.plan
        for option, protocol in (("", plan.full), (" --quick", plan.quick)):
            cases = len(variant.cases(variant.levels(quick=bool(option))))
            processes = ", ".join(f"{n} {policy}" for policy, n in protocol.processes.items())
            on_gpu = " --device cuda" if device == "cuda" else ""
            lines.append(f"  run {study.name}{option}{on_gpu}: {cases} cases by {processes}")
    return "\n".join(lines)
