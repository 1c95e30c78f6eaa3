"""From the command line's words to the plan and cases of a run, and what there is to choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from experiments.harness.study import Factors, Levels, Plan, Study, UsageError, replanned
from experiments.harness.text import period_text
from report.records.record import Factor as Level

_MEANING: Final = (
    "A full run stops timing at its limit, and often ends long before; what is measured once and",
    "counted comes on top. list STUDY tells its factors and plans.",
)


def select(
    study: Study,
    *,
    quick: bool,
    settings: Iterable[str] = (),
    images: bool = False,
    changes: Mapping[str, Any] = {},
) -> tuple[Plan, tuple[Factors, ...]]:
    """The plan and the cases; ``settings`` are ``factor=level,level`` as given to ``--set``.

    A run with settings or with ``changes`` of the protocol is a ``custom`` plan.  ``images`` says
    that a folder of images was given, which takes the place of the study's own.  Raises
    ``UsageError``.
    """
    if images and study.images is None:
        raise UsageError(f"--data: {study.name} reads no images; leave it out.")
    chosen = _parsed(study, settings)
    plan = study.quick if quick else study.full
    if chosen or changes:
        plan = replanned(plan, plan="custom", **changes)
    given: Levels = {"dataset": (study.images,)} if images and study.images else {}
    cases = study.cases({**default_levels(study, quick=quick), **given, **chosen})
    if not cases:
        raise UsageError(
            f"--set leaves no case of {study.name}: these levels do not go together; python -m "
            f"experiments list {study.name} shows what there is."
        )
    return plan, cases


def default_levels(study: Study, *, quick: bool) -> Levels:
    """The levels that a plan measures without ``--set``."""
    return {f.name: f.quick if quick else f.levels for f in study.factors}


def _parsed(study: Study, settings: Iterable[str]) -> dict[str, tuple[Level, ...]]:
    factors = {factor.name: factor for factor in study.factors}
    chosen: dict[str, tuple[Level, ...]] = {}
    for setting in settings:
        name, _, values = setting.partition("=")
        if name not in factors:
            raise UsageError(
                f"--set {setting}: {study.name} has no factor {name!r}; possible are "
                f"{', '.join(factors)}."
            )
        if not values:
            raise UsageError(f"--set {setting}: expected {name}=LEVEL or {name}=LEVEL,LEVEL.")
        if name in chosen:
            raise UsageError(f"--set {name} stands twice; give all levels in one, with commas.")
        levels = {factors[name].parse(value) for value in values.split(",")}
        # Numbers by size, words by alphabet: the order must not depend on how they were typed.
        chosen[name] = tuple(sorted(levels, key=lambda level: (isinstance(level, str), level)))
    return chosen


# ---------------------------------------------------------------------------------------- listing


def overview(studies: Iterable[Study]) -> str:
    """A line a study: its name, the cases and the time limit of a full run, and its question."""
    lines = [f"{'STUDY':<18} {'CASES':>5}  {'TIME LIMIT':>10}  QUESTION"]
    for study in studies:
        budget, cases = study.full.protocol.budget_s, _count(study, quick=False)
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
            yield f"  full plan{where}: {cases[0]} cases, {each.full.summary}"
            yield f"  quick plan{where or ' (--quick)'}: {cases[1]} cases, {each.quick.summary}"


def _count(study: Study, *, quick: bool) -> int:
    return len(study.cases(default_levels(study, quick=quick)))
