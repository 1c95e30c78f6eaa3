"""From the command line's words to the cases and the plan of a run; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from experiments.harness.study import Factors, Levels, Plan, Study, UsageError
from report.records.record import Factor as Level


@dataclass(frozen=True)
class Selection:
    """What a run will measure."""

    plan: Plan
    cases: tuple[Factors, ...]


def select(
    study: Study,
    *,
    quick: bool,
    settings: Iterable[str] = (),
    budget: float | None = None,
    images: bool = False,
) -> Selection:
    """The cases and the plan; ``settings`` are ``factor=level,level`` as given to ``--set``.

    A run with settings or a budget of its own (s for a case in each process, however long all of
    them take) is a ``custom`` plan.  ``images`` says that a
    folder of images was given, which takes the place of the study's own.  Raises ``UsageError``.
    """
    chosen = _parsed(study, settings)
    plan = study.quick if quick else study.full
    if chosen or budget is not None:
        plan = _custom(plan, budget)
    given = _given_images(study) if images else {}
    cases = study.cases({**default_levels(study, quick=quick), **given, **chosen})
    if not cases:
        raise UsageError(
            f"--set leaves no case of {study.name}: these levels do not go together; python -m "
            f"experiments list {study.name} shows what there is."
        )
    return Selection(plan, cases)


def _given_images(study: Study) -> dict[str, tuple[Level, ...]]:
    if study.images is None:
        raise UsageError(f"--data: {study.name} reads no images; leave it out.")
    return {"dataset": (study.images,)}


def default_levels(study: Study, *, quick: bool) -> Levels:
    """The levels that a plan measures without ``--set``."""
    return {f.name: f.quick if quick else f.levels for f in study.factors}


def _custom(plan: Plan, budget: float | None) -> Plan:
    seconds = plan.protocol.case_budget_s if budget is None else budget
    return replace(
        plan,
        protocol=msgspec.structs.replace(
            plan.protocol,
            plan="custom",
            case_budget_s=seconds,
            budget_s=plan.protocol.budget_s if budget is None else None,
        ),
    )


def _parsed(study: Study, settings: Iterable[str]) -> dict[str, tuple[Level, ...]]:
    factors = {factor.name: factor for factor in study.factors}
    chosen: dict[str, tuple[Level, ...]] = {}
    for setting in settings:
        name, equals, values = setting.partition("=")
        if name not in factors:
            raise UsageError(
                f"--set {setting}: {study.name} has no factor {name!r}; possible are "
                f"{', '.join(factors)}."
            )
        if not (equals and values):
            raise UsageError(f"--set {setting}: expected {name}=LEVEL or {name}=LEVEL,LEVEL.")
        if name in chosen:
            raise UsageError(f"--set {name} stands twice; give all levels in one, with commas.")
        chosen[name] = _ordered({factors[name].parse(value) for value in values.split(",")})
    return chosen


def _ordered(levels: set[Level]) -> tuple[Level, ...]:
    """Numbers by size, words by alphabet: the order must not depend on how they were typed."""
    return tuple(sorted(levels, key=lambda level: (isinstance(level, str), level)))
