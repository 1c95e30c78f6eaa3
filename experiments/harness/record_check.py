"""Whether a record is good to hand in: as it was written, complete, quiet, and plausible.

One line a check, as ``experiments.harness.doctor`` prints them; all but that of the files beside it
are pure functions of the record.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from experiments import registry
from experiments.harness.doctor import Check, Level
from experiments.harness.selection import default_levels
from experiments.harness.summary import factors_text, instability
from report.errors import RecordError, RidgepointError
from report.instruments import gates
from report.records.record import Record
from report.records.store import Stored, read_anywhere, read_attachments, write_archive

_WORST_FIRST: Final[tuple[Level, ...]] = ("problem", "note", "ok")


def check_records(files: Sequence[Path], into: Path | None, say: Callable[[str], None]) -> int:
    """Say of each record whether it can be handed in; the exit code: 1 if one cannot.

    One record is reported check by check, several in a line each.  Those that can be handed in are
    copied to the folders of their studies ``into`` a data directory, if one is given.
    """
    results = []
    for path in files:
        stored, checks = _looked_at(path)
        if len(files) == 1:
            say("\n".join(check.line() for check in checks))
        else:
            say(_line(path, stored, checks))
        results.append(_verdict(checks))
        if stored and into and results[-1] != "problem":
            copied, words = _copied(stored, path, into)
            say(f"{'':<9}{words}")
            results[-1] = results[-1] if copied else "problem"
    say(_closing(results))
    return 1 if "problem" in results else 0


def _looked_at(path: Path) -> tuple[Stored | None, tuple[Check, ...]]:
    """The record with its checks; without one that cannot be read the reason alone."""
    folder = _folder(path)
    try:
        if path.is_symlink() or not path.exists():
            what = "is a link" if path.is_symlink() else "there is no such file"
            raise RecordError(f"{path}: {what}; give the file that the experiment wrote.")
        stored = read_anywhere(folder / path.name, folder)
        return stored, tuple(checks_of(stored, folder))
    except RidgepointError as error:
        return None, (Check("problem", "format", str(error)),)
    except OSError as error:
        return None, (Check("problem", "format", f"cannot be read ({error.strerror})"),)


def _folder(path: Path) -> Path:
    """The folder that a record lies in, without links; what the record names lies there too."""
    return Path(os.path.realpath(path.parent))


def _verdict(checks: Iterable[Check]) -> Level:
    """The worst level."""
    levels = {check.level for check in checks}
    return next(level for level in _WORST_FIRST if level in levels)


def _line(path: Path, stored: Stored | None, checks: Sequence[Check]) -> str:
    """The file, its machine, and what of its checks is worst, in one line."""
    worst = _verdict(checks)
    texts = [f"{check.topic}: {check.text}" for check in checks if check.level == worst != "ok"]
    machine = [checks[0].text] if stored else []
    return f"{worst:<9}{path}  {'; '.join((*machine, *texts))}"


def _closing(results: Sequence[Level]) -> str:
    bad, notes = (results.count(level) for level in ("problem", "note"))
    if len(results) == 1:
        return "It cannot be handed in." if bad else "It can be handed in."
    good = (
        f"{len(results)} records: {len(results) - bad} can be handed in, {notes} of them with notes"
    )
    return f"{good}; {bad} cannot."


def _copied(stored: Stored, path: Path, into: Path) -> tuple[bool, str]:
    """Copy a record, and never over another; whether, and in words."""
    target = into / stored.record.study / path.name
    try:
        content = path.read_bytes()
        if target.exists():
            same = target.read_bytes() == content
            return same, f"is there: {target}" if same else f"not copied: another {target} is there"
        write_archive(target, content)
    except RidgepointError as error:
        return False, f"not copied: {error}"
    except OSError as error:
        return False, f"not copied to {target}: {error.strerror}"
    return True, f"copied to {target}"


def checks_of(stored: Stored, folder: Path) -> Iterator[Check]:
    """All checks of a record that could be read; ``folder`` is that to which its file is relative.

    Raises ``RecordError`` for a file beside it that cannot be read as it was written.
    """
    record = stored.record
    yield _machine(record)
    yield _as_written(stored)
    yield _files(stored, folder)
    yield _complete(record)
    yield _outcomes(record)
    yield _quiet(record)
    yield _plausible(record)


def _machine(record: Record) -> Check:
    environment = record.environment
    return Check("ok", "machine", f"{environment.label}, {record.study}, {record.started[:10]}")


def _as_written(stored: Stored) -> Check:
    if stored.untouched:
        return Check("ok", "content", "is what its experiment wrote")
    why = " and ".join(stored.alterations)
    return Check("problem", "content", f"{why}; hand in the file that the experiment wrote")


def _files(stored: Stored, folder: Path) -> Check:
    """Whether the archive holds all files that the record names; raises ``RecordError``."""
    files = read_attachments(stored, ("*",), folder)
    return Check("ok", "files", f"{len(files)} in the record, as it names them")


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
    if record.shard is not None:
        part = f"shard {record.shard.number} of {record.shard.of} of the {plan} plan"
        return Check("note", "plan", f"{part}; hand in the others too")
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
