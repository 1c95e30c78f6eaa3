"""``experiments collect``: check the records that students submitted; copy the usable records."""

import os
import shutil
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

from experiments import registry
from experiments.commands.checks import CheckResult, check_file
from experiments.machine.code import ROOT
from report.core.errors import RecordError
from report.core.records import ENDING, store
from report.core.records.record import Record
from report.instruments.gates import CopyDetector

_ARCHIVE_ENDINGS: Final = (".zip", ".gz", ".tar", ".tgz", ".7z", ".rar")
#: Format of a line of the table, with columns cut to fixed widths.
_TABLE_LINE: Final = "{:16.16}  {:26.26}  {:16.16}  {:13.13}  {}"


@dataclass
class Submission:
    """Submitted file, and its record if readable; ``fault`` is why it is unusable, or empty."""

    path: Path
    student: str
    fault: str = ""
    checks: list[CheckResult] = field(default_factory=list)
    stored: store.Stored | None = None

    def line(self) -> str:
        """Format a line of the table: student, machine, study, use, and error or first note."""
        machine, study, use = "–", "–", "nothing"
        if self.stored:
            record = self.stored.record
            machine, study = record.environment.label, record.study
            if not self.fault:
                use = "paper, report" if record.protocol.plan == "full" else "report"
        notes = [c.text for c in self.checks if c.level == "note" and c.topic != "plan"]
        remark = f"{self.path.name}: {self.fault}" if self.fault else "".join(notes[:1])
        cells = (self.student, machine, study, use, " ".join(remark.split()))
        return _TABLE_LINE.format(*cells).rstrip()


def collect(options: Namespace) -> int:
    """Copy the usable records and print a line per file; return 1 if a file is unusable, else 0."""
    submissions = [*chain.from_iterable(map(_submissions, options.folders))]
    if not submissions:
        raise RecordError(f"{options.folders[0]}: contains no record; name another folder.")
    _refuse_links(options.into)
    copies = CopyDetector()
    first_of_machine: dict[tuple[str, str], Submission] = {}  # by study and machine
    for submission in submissions:
        submission.fault = _check_and_copy(submission, copies, options.into)
        if submission.stored and not submission.fault:
            key = (submission.stored.record.study, submission.stored.record.environment.key)
            first = first_of_machine.setdefault(key, submission)
            if first is not submission:
                text = f"same machine as {first.student}; its runs are pooled, or the newest counts"
                submission.checks.insert(0, CheckResult("machine", text, "note"))
    print(_TABLE_LINE.format("who", "machine", "study", "usable for", "what to know or do"))
    for submission in sorted(submissions, key=lambda submission: bool(submission.fault)):
        print(submission.line())
    unusable = sum(bool(submission.fault) for submission in submissions)
    usable, site = len(submissions) - unusable, options.into / "site.yaml"
    print(f"{len(submissions)} files: {usable} usable, {unusable} not; records in {options.into}.")
    if options.notes:
        _write_notes(submissions, options.notes)
    if usable and not os.path.lexists(site):
        shutil.copyfile(ROOT / "templates" / "class" / "site.yaml", site)
        print(f"Wrote {site}: name the course and its teacher there.")
    return int(unusable > 0)


def _submissions(path: Path) -> Iterator[Submission]:
    """Yield the records, archives and links below a folder, or a single file; follow no link."""
    if not path.is_dir() or path.is_symlink():
        yield Submission(path, path.stem)
        return
    for file in sorted(path.rglob("*")):
        parts = file.relative_to(path).parts  # a student's folder and a path, or a file
        is_hidden = any(part.startswith(".") for part in parts)
        is_attachment = Path(f"{file.parent}{ENDING}").is_file()
        is_submission = file.suffix in (ENDING, *_ARCHIVE_ENDINGS) or file.is_symlink()
        if is_submission and not is_hidden and not is_attachment:
            yield Submission(file, parts[0] if len(parts) > 1 else file.stem)


def _check_and_copy(submission: Submission, copies: CopyDetector, into: Path) -> str:
    """Check a file and copy its record; return why the record is unusable, or an empty text."""
    if submission.path.is_symlink():
        return "is a link, which is not followed; hand in the file itself"
    if submission.path.suffix in _ARCHIVE_ENDINGS:
        return "is packed; unpack it into the folder and collect again"
    submission.stored, submission.checks = check_file(submission.path)
    problems = [check.text for check in submission.checks if check.level == "problem"]
    if problems or submission.stored is None:
        return problems[0]
    record = submission.stored.record
    if fault := _fault_of_study(submission.path.parent.name, record):
        return fault
    if copied := copies.reason(f"{submission.path.name} ({submission.student})", record):
        return f"{copied}; measure on your own machine"
    return _copy(submission, submission.stored, into)


def _fault_of_study(folder: str, record: Record) -> str:
    """Explain if the folder or the cases of a record belong to another study, else return ""."""
    study, matching_studies = record.study, list[str]()
    if folder in registry.STUDIES and folder != study:
        return f"is a record of {study} in a folder of {folder}; move it, or measure {folder}"
    for name in registry.STUDIES:
        factors = {factor.name: factor.possible for factor in registry.load(name).factors}
        subjects = factors.get("subject", (None,))  # None stands for a study without this factor
        cases = [case.factors for case in record.cases if case.factors.keys() <= factors.keys()]
        if any(case.get("subject") in subjects for case in cases):
            matching_studies.append(name)
    if study not in registry.STUDIES or not matching_studies or study in matching_studies:
        return ""  # an older record may have factors that no current study varies
    studies = " or ".join(matching_studies)
    return f"its cases are not of {study}, but of {studies}; hand in the original file"


def _copy(submission: Submission, stored: store.Stored, into: Path) -> str:
    """Copy a record with attachments, replacing none; return why this failed, or an empty text."""
    target = into / stored.record.study / submission.path.name
    try:
        _refuse_links(into, target.parent, target, store.attachments_folder(target))
        attachments = store.read_attachments(stored, ("*",), submission.path.parent.resolve())
        contents = {name: data for name, data in attachments.items() if isinstance(data, bytes)}
        text = submission.path.read_bytes()
        if target.exists() and target.read_bytes() == text:
            store.write_attachments(target, contents)  # attachments may be submitted later
        else:
            store.write_files(target, text, contents)
    except (OSError, RecordError) as error:
        return str(error)
    return ""


def _refuse_links(*paths: Path) -> None:
    for path in paths:
        if path.is_symlink():
            raise RecordError(f"{path}: is a link, and nothing is written through it; remove it.")


def _write_notes(submissions: Sequence[Submission], folder: Path) -> None:
    """Write all checks of each student's files to ``STUDENT.txt``."""
    _refuse_links(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts: dict[str, list[str]] = {}
    for submission in submissions:
        verdict = f"cannot be used: {submission.fault}" if submission.fault else "can be used"
        checks = [check.line() for check in submission.checks]
        lines = texts.setdefault(submission.student, [])
        lines += [f"{submission.path.name}: {verdict}", *checks, ""]
    for student, lines in texts.items():
        note = folder / f"{student}.txt"
        _refuse_links(note)
        note.write_text("\n".join(lines), "utf-8")
