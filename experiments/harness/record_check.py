"""Whether a record is good to hand in: as it was written, complete, quiet, and plausible.

One line a check, as ``experiments.harness.doctor`` prints them.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from experiments import registry
from experiments.harness.doctor import Check
from experiments.harness.progress import instability
from experiments.harness.text import factors_text
from report.errors import RidgepointError
from report.instruments import gates
from report.records.record import Record
from report.records.store import EDITED, Stored, read_attachments, read_record, write_archive


def check_records(options: Namespace) -> int:
    """Print of each record whether it can be handed in; the exit code: 1 if one cannot.

    Of one record all checks are told, of several those that are not ok.  Those that can be handed
    in are copied to the folders of their studies in a data directory, if ``--into`` gives one.
    """
    bad, files = 0, options.files
    for path in files:
        checks = _looked_at(path, options.into)
        problem = any(check.level == "problem" for check in checks)
        print(f"{path}: {'cannot' if problem else 'can'} be handed in", flush=True)
        for check in checks:
            if len(files) == 1 or check.level != "ok" or check.topic in ("machine", "copy"):
                print(check.line(), flush=True)
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
        return [Check("format", str(error), "problem")]
    if into and all(check.level != "problem" for check in checks):
        checks.append(_copied(path, into / stored.record.study / path.name))
    return checks


def _copied(path: Path, target: Path) -> Check:
    """Copy a record, and never over another."""
    try:
        if not target.exists():
            write_archive(target, path.read_bytes())
        elif target.read_bytes() != path.read_bytes():
            return Check("copy", f"not copied: another {target} is there", "problem")
    except (RidgepointError, OSError) as error:
        return Check("copy", f"not copied to {target}: {error}", "problem")
    return Check("copy", f"{target}")


def checks_of(stored: Stored, folder: Path) -> Iterator[Check]:
    """All checks of a record that could be read; ``folder`` is that to which its file is relative.

    Raises ``RecordError`` for a file beside it that cannot be read as it was written.
    """
    record = stored.record
    yield Check("machine", f"{record.environment.label}, {record.study}, {record.started[:10]}")
    if stored.edited:
        why = f"{EDITED}; hand in the file that the experiment wrote"
        yield Check("content", why, "problem")
    else:
        yield Check("content", "is what its experiment wrote")
    files = read_attachments(stored, ("*",), folder)
    yield Check("files", f"{len(files)} in the record, as it names them")
    yield _plan(record)
    yield _outcomes(record)
    watched = gates.disturbed([record])
    seen = "disturbances were not monitored"
    if watched is not None:
        seen = f"disturbed {watched[0]} of {watched[1]} measurements"
    if unstable := instability(record.cases, named=1):
        yield Check("quiet", f"{unstable[:-1]}; {seen}", "note")
    else:
        yield Check("quiet", f"processes agree; {seen}", "note" if watched is None else "ok")
    yield _plausible(record)


def _plan(record: Record) -> Check:
    """Whether it is a whole full run, with the cases of today's experiment."""
    plan, cases = record.protocol.plan, [case.factors for case in record.cases]
    if record.shard is not None:
        part = f"shard {record.shard.number} of {record.shard.of} of the {plan} plan"
        return Check("plan", f"{part}; hand in the others too", "note")
    if plan != "full" or record.study not in registry.STUDIES:
        whole = "papers take a full run of the machine where there is one"
        return Check("plan", f"{plan}, {len(cases)} cases; {whole}", "note")
    study = registry.load(record.study).on(record.environment.device)
    planned = study.cases(study.levels(quick=False))
    if lacking := [factors for factors in planned if factors not in cases]:
        such = f"{len(lacking)} of {len(planned)} cases are not in it, such as "
        return Check("plan", f"{such}{factors_text(lacking[0])}", "note")
    return Check("plan", f"all {len(planned)} cases of the full plan")


def _outcomes(record: Record) -> Check:
    if not any(case.status == "ok" for case in record.cases):
        text = "no case could be measured; the record says why"
        return Check("outcomes", text, "problem")
    if bad := [case for case in record.cases if case.status == "failed"]:
        first = f"{factors_text(bad[0].factors)}: {bad[0].reason}"
        text = f"{len(bad)} of {len(record.cases)} cases failed, such as {first}"
        return Check("outcomes", text, "problem")
    return Check("outcomes", "no case failed")


def _plausible(record: Record) -> Check:
    """Whether no case in float32 is faster than the best ceiling, and that not than the machine."""
    best = gates.best_rate(record)
    if best is None:
        return Check("ceilings", "none was measured, so that no rate can be judged", "note")
    if problem := gates.problem(record):
        return Check("ceilings", f"{problem}; measure again", "problem")
    return Check("ceilings", f"no case is faster than the best, {best / 1e9:.0f} GFLOP/s")
