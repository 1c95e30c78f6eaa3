"""Whether a record is good to hand in: as it was written, complete, quiet, and plausible.

One line a check, as ``experiments.harness.doctor`` prints them; a check is a pure function of the
record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from experiments import registry
from experiments.harness.doctor import Check
from experiments.harness.selection import default_levels
from experiments.harness.summary import factors_text, instability
from report.errors import RecordError
from report.records.record import Case, Record
from report.records.store import Stored, read_record
from report.theory.recorded import operator_faults
from report.theory.work import flops, forward_macs

#: A case may be this much faster than the best ceiling, since ceilings scatter too.
_SCATTER: Final = 1.25
_FLOAT32: Final = "float32"


def check_records(files: list[Path], say: Callable[[str], None]) -> int:
    """Say of each record whether it can be handed in; the exit code: 1 if one cannot."""
    return max([_checked(path, say) for path in files], default=0)


def _checked(path: Path, say: Callable[[str], None]) -> int:
    say(str(path))
    try:
        whole = path.resolve()
        checks = tuple(checks_of(read_record(whole, whole.parent.parent)))
    except RecordError as error:
        checks = (Check("problem", "format", str(error)),)
    for check in checks:
        say(check.line())
    problems = sum(check.level == "problem" for check in checks)
    say(
        "It can be handed in." if not problems else f"It cannot be handed in; problems: {problems}."
    )
    return 1 if problems else 0


def checks_of(stored: Stored) -> Iterator[Check]:
    """All checks of a record that could be read."""
    record = stored.record
    yield _machine(record)
    yield _as_written(stored)
    yield _complete(record)
    yield _outcomes(record)
    yield _quiet(record)
    yield _plausible(record)
    yield _operators(record)


def _machine(record: Record) -> Check:
    environment = record.environment
    return Check("ok", "machine", f"{environment.label}, {record.study}, {record.started[:10]}")


def _as_written(stored: Stored) -> Check:
    if stored.untouched:
        return Check("ok", "content", "is what its experiment wrote")
    why = " and ".join(stored.alterations)
    return Check("problem", "content", f"{why}; hand in the file that the experiment wrote")


def _complete(record: Record) -> Check:
    """Whether the cases are those of the plan of today's experiment."""
    plan = record.protocol.plan
    if record.study not in registry.STUDIES or plan == "custom":
        return Check("note", "plan", f"{plan}, {len(record.cases)} cases")
    study = registry.load(record.study).on(record.environment.device)
    planned = study.cases(default_levels(study, quick=plan == "quick"))
    there = {frozenset(case.factors.items()) for case in record.cases}
    lacking = [factors for factors in planned if frozenset(factors.items()) not in there]
    if lacking:
        text = f"{plan}; {len(lacking)} of {len(planned)} cases are not in it, such as "
        return Check("note", "plan", text + factors_text(lacking[0]))
    if plan == "quick":
        return Check(
            "note", "plan", "quick: papers take a full run of the machine where there is one"
        )
    return Check("ok", "plan", f"all {len(planned)} cases of the full plan")


def _outcomes(record: Record) -> Check:
    bad = [case for case in record.cases if case.status == "failed"]
    if not any(case.status == "ok" for case in record.cases):
        return Check("problem", "outcomes", "no case could be measured; the record says why")
    if bad:
        text = f"{len(bad)} of {len(record.cases)} cases failed, such as "
        return Check(
            "problem", "outcomes", f"{text}{factors_text(bad[0].factors)}: {bad[0].reason}"
        )
    return Check("ok", "outcomes", "no case failed")


def _quiet(record: Record) -> Check:
    if unstable := instability(record.cases, named=1):
        return Check("note", "quiet", unstable)
    return Check("ok", "quiet", "processes agree, and each case has one that nothing disturbed")


def _plausible(record: Record) -> Check:
    """Whether no case in float32 computes faster than the best ceiling of the machine in it."""
    ceilings = [
        ceiling.work / min(ceiling.samples)
        for ceiling in record.ceilings
        if ceiling.dtype == _FLOAT32
        and ceiling.work_unit == "FLOP"
        and ceiling.samples
        and min(ceiling.samples) > 0
    ]
    if not ceilings:
        return Check("note", "ceilings", "none was measured, so that no rate can be judged")
    best = max(ceilings)
    single = [case for case in record.cases if case.factors.get("precision", _FLOAT32) == _FLOAT32]
    fast = [(rate, case) for case in single if (rate := _rate(case)) > _SCATTER * best]
    if fast:
        rate, case = max(fast, key=lambda each: each[0])
        text = f"{factors_text(case.factors)} computes {rate / 1e9:.0f} GFLOP/s, the best ceiling "
        return Check("problem", "ceilings", f"{text}{best / 1e9:.0f}; measure again")
    return Check("ok", "ceilings", f"no case is faster than the best, {best / 1e9:.0f} GFLOP/s")


def _operators(record: Record) -> Check:
    """Whether the operators of each case are known, and multiply as often as its layers."""
    kept = sum(case.operations is not None for case in record.cases)
    if not kept:
        why = record.environment.missing.get("operations", "the record keeps none")
        return Check("note", "operators", why)
    fault = next(operator_faults(record), None)
    if fault is not None:
        return Check("problem", "operators", f"{fault}; hand in the file that was written")
    return Check("ok", "operators", f"of {kept} cases have the multiply-adds of their layers")


def _rate(case: Case) -> float:
    """The forward work of a case over its shortest time (FLOP/s); 0 where it has no time.

    A pass does at least its forward work, so that this is no more than the case's real rate.
    """
    times = case.samples("time") if case.status == "ok" else ()
    return flops(forward_macs(case.layers)) / min(times) if times and min(times) > 0 else 0.0
