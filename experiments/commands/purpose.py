"""Say at the end of a run what its record serves: the next build, and claims of the paper."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from experiments.commands.outcome import print_outcome
from experiments.machine.code import ROOT
from report.core.errors import RidgepointError
from report.core.records import ENDING
from report.core.records.record import Record
from report.core.records.store import Stored, read_attachments
from report.instruments import comparison
from report.instruments.case_operators import PATTERN
from report.instruments.judgement import judge

#: Exit code of a run whose record no paper can use.
USELESS = 3


def print_record(record: Record, path: Path, records: Path) -> int:
    """Print the cases of a record, its path and what it is good for; return the exit code."""
    stored = Stored(record, f"{record.study}/{path.name}")
    measured = print_outcome(record, read_attachments(stored, (PATTERN,), records))
    print(f"Record: {path}")
    usable, lines = purpose(record, path, records)
    print(*lines, sep="\n")
    if not usable:
        return USELESS
    return int(not measured)


def purpose(record: Record, path: Path, records: Path) -> tuple[bool, tuple[str, ...]]:
    """Say whether and how a build uses a record, and what to run next."""
    file = f"{record.study}/{path.name}"
    try:
        judgement = judge(record.study, file, records)
    except RidgepointError as error:
        return True, (str(error),)  # the folder is at fault, not this record
    if not judgement.usable:
        again = shlex.join((*record.command, "--wait-quiet", "10"))
        return False, (f"No paper can use this record: {judgement.words}", f"Next: {again}")
    words = f"{judgement.words[:1].upper()}{judgement.words[1:]}"
    agreement = agreement_with_paper(record.study, path, records)
    build = shlex.join(build_command(record.study, path, records, used=judgement.used))
    return True, (f"{words}.", *agreement, f"Next: {build}")


def build_command(study: str, path: Path, records: Path, *, used: bool) -> tuple[str, ...]:
    """Return the command that builds from a record: the paper that uses it, else its report."""
    if study == comparison.NAME:
        return ("python", "build.py", "--comparison", os.fspath(path))
    # A name begins with the time, so that the last one is the newest.
    newest = max(path.parent.glob(f"[0-9]*{ENDING}")).name == path.name
    named = () if newest else (f"{study}/{path.name}",)
    if records.resolve() != Path("data").resolve():
        return ("python", "build.py", study, "--replicate", *named, "--data", os.fspath(records))
    return ("python", "build.py", study, *(() if used else ("--replicate", *named)))


def agreement_with_paper(study: str, path: Path, records: Path) -> list[str]:
    """Ask the builder how many claims a record confirms; nothing if it has no such study."""
    if not (ROOT / "report" / "studies" / study / "study.py").is_file():
        return []
    program = (sys.executable, os.fspath(ROOT / "build.py"), study, "--list")
    record = ("--replicate", os.fspath(path.resolve()), "--data", os.fspath(records.resolve()))
    build = subprocess.run(
        (*program, *record), cwd=ROOT, capture_output=True, text=True, check=False
    )
    return (build.stdout or build.stderr).splitlines()
