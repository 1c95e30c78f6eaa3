"""Whether a record is good to hand in: as it was written, complete, quiet, and plausible.

One line a check, as ``experiments.harness.doctor`` prints them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments import registry
from experiments.harness.doctor import Check
from experiments.harness.progress import instability
from experiments.harness.text import factors_text
from report.errors import RidgepointError
from report.instruments import gates
from report.records.record import Record
from report.records.store import EDITED, Stored, read_attachments, read_record, write_archive


def check_records(files: Sequence[Path], into: Path | None) -> int:
    """Say of each record whether it can be handed in; the exit code: 1 if one cannot.

    Of one record all checks are told, of several those that are not ok.  Those that can be handed
    in are copied to the folders of their studies ``into`` a data directory, if one is given.
    """
    bad = 0
    for path in files:
        checks = _looked_at(path, into)
        problem = any(check.level == "problem" for check in checks)
        print(f"{path}: {'cannot' if problem else 'can'} be handed in")
        for check in checks:
            if len(files) == 1 or check.level != "ok" or check.topic in ("machine", "copy"):
                print(check.line())
        bad += problem
    if len(files) > 1:
        print(f"{len(files)} records: {len(files) - bad} can be handed in; {bad} cannot.")
    return int(bad > 0)


def _looked_at(path: Path, into: Path | None) -> list[Check]:
    """All checks of a record, which is copied if they allow it."""
    # Without links; what the record names lies in the same folder.
    folder = Path(os.path.realpath(path.parent))
    try:
        stored = read_record(folder / path.name, folder)
        checks = list(checks_of(stored, folder))
    except RidgepointError as error:
        return [Check("problem", "format", str(error))]
    if into and all(check.level != "problem" for check in checks):
        checks.append(_copied(path, into / stored.record.study / path.name))
    return checks


def _copied(path: Path, target: Path) -> Check:
    """Copy a record, and never over another."""
    try:
        if not target.exists():
            write_archive(target, path.read_bytes())
        elif target.read_bytes() != path.read_bytes():
            return Check("problem", "copy", f"not copied: another {target} is there")
    except (RidgepointError, OSError) as error:
        return Check("problem", "copy", f"not copied to {target}: {error}")
    return Check("ok", "copy", f"{target}")


def checks_of(stored: Stored, folder: Path) -> Iterator[Check]:
    """All checks of a record that could be read; ``folder`` is that to which its file is relative.

    Raises ``RecordError`` for a file beside it that cannot be read as it was written.
    """
    record = stored.record
    label = record.environment.label
    yield Check("ok", "machine", f"{label}, {record.study}, {record.started[:10]}")
    if not stored.edited:
        yield Check("ok", "content", "is what its experiment wrote")
    else:
        why = EDITED
        yield Check("problem", "content", f"{why}; hand in the file that the experiment wrote")
    files = read_attachments(stored, ("*",), folder)
    yield Check("ok", "files", f"{len(files)} in the record, as it names them")
    yield _plan(record)
    yield _outcomes(record)
    yield _quiet(record)
    yield _plausible(record)


def _plan(record: Record) -> Check:
    """Whether the cases are those of the plan of today's experiment."""
    plan = record.protocol.plan
    if record.study not in registry.STUDIES or plan == "custom":
        return Check("note", "plan", f"{plan}, {len(record.cases)} cases")
    study = registry.load(record.study).on(record.environment.device)
    planned = study.cases(study.levels(quick=plan == "quick"))
    there = [case.factors for case in record.cases]
    if lacking := [factors for factors in planned if factors not in there]:
        such = f"{len(lacking)} of {len(planned)} cases are not in it, such as "
        return Check("note", "plan", f"{plan}; {such}{factors_text(lacking[0])}")
    if record.shard is not None:
        part = f"shard {record.shard.number} of {record.shard.of} of the {plan} plan"
        return Check("note", "plan", f"{part}; hand in the others too")
    if plan == "quick":
        text = "quick: papers take a full run of the machine where there is one"
        return Check("note", "plan", text)
    return Check("ok", "plan", f"all {len(planned)} cases of the full plan")


def _outcomes(record: Record) -> Check:
    if not any(case.status == "ok" for case in record.cases):
        return Check("problem", "outcomes", "no case could be measured; the record says why")
    if bad := [case for case in record.cases if case.status == "failed"]:
        first = f"{factors_text(bad[0].factors)}: {bad[0].reason}"
        text = f"{len(bad)} of {len(record.cases)} cases failed, such as {first}"
        return Check("problem", "outcomes", text)
    return Check("ok", "outcomes", "no case failed")


def _quiet(record: Record) -> Check:
    watched = gates.disturbed([record])
    seen = "disturbances were not monitored"
    if watched is not None:
        seen = f"disturbed {watched[0]} of {watched[1]} measurements"
    if unstable := instability(record.cases, named=1):
        return Check("note", "quiet", f"{unstable[:-1]}; {seen}")
    return Check("note" if watched is None else "ok", "quiet", f"processes agree; {seen}")


def _plausible(record: Record) -> Check:
    """Whether no case in float32 is faster than the best ceiling, and that not than the machine."""
    best = gates.best_rate(record)
    if best is None:
        return Check("note", "ceilings", "none was measured, so that no rate can be judged")
    if problem := gates.problem(record):
        return Check("problem", "ceilings", f"{problem}; measure again")
    return Check("ok", "ceilings", f"no case is faster than the best, {best / 1e9:.0f} GFLOP/s")
