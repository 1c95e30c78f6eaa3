"""``collect``: check the records that students submitted, and copy the usable ones."""

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from experiments import registry
from experiments.commands.checks import RecordCheck, check_file
from report.core.errors import RecordError
from report.core.records import ENDING
from report.core.records.record import Record
from report.core.records.store import (
    Stored,
    attachments_folder,
    read_attachments,
    write_attachments,
    write_files,
)
from report.instruments.gates import fingerprints

_SITE: Final = "site.yaml"
#: Written into a new folder of records, for the teacher to fill in.
_SITE_TEXT: Final = """\
# Texts for the course's site and reports; see docs/publishing.md.
# Remove the # in front of a line to use it.
# title: Performance engineering, autumn 2026
# course: CS 533, Example University
# teacher: Ada Example
# authors: [Group 1, Group 2]
# date: December 2026
# Where the site will be, with a slash at its end:
# url: https://example.org/courses/perf/
"""
_ARCHIVES: Final = (".zip", ".gz", ".tar", ".tgz", ".7z", ".rar")
#: Columns of the table with their widths; the remark has no end.
_COLUMNS: Final = {"who": 16, "machine": 26, "study": 16, "usable for": 13}


@dataclass
class Submission:
    """A submitted file with its checks, and the reason why it cannot be used, if any."""

    path: Path
    who: str
    checks: list[RecordCheck] = field(default_factory=list)
    stored: Stored | None = None
    fault: str = ""

    def line(self) -> str:
        """One line of the table: who, machine, study, use, and the error or first note."""
        machine = study = "–"
        use = "nothing" if self.fault else "report"
        if self.stored:
            record = self.stored.record
            machine, study = record.environment.label, record.study
            if not self.fault and record.protocol.plan == "full":
                use = "paper, report"
        notes = [c.text for c in self.checks if c.level == "note" and c.topic != "plan"]
        remark = f"{self.path.name}: {self.fault}" if self.fault else (notes or [""])[0]
        return _row((self.who, machine, study, use), " ".join(remark.split()))


def _row(cells: Iterable[str], remark: str) -> str:
    texts = []
    for cell, width in zip(cells, _COLUMNS.values(), strict=True):
        texts.append(f"{cell if len(cell) <= width else cell[: width - 1] + '…':<{width}}")
    return "  ".join((*texts, remark)).rstrip()


def collect(options: Namespace) -> int:
    """Print a table with a line per file; return the exit code, 1 if a file cannot be used."""
    files = [file for folder in options.folders for file in _files(folder)]
    if not files:
        raise RecordError(f"{options.folders[0]}: holds no file; name the folder handed in.")
    _refuse_links(options.into)
    for file in files:
        _check(file)
    _compare(files)
    for file in files:
        if not file.fault:
            _copy(file, options.into)
    files.sort(key=lambda file: bool(file.fault))
    print(_row(_COLUMNS, "what to know or do"))
    for file in files:
        print(file.line())
    bad = sum(bool(file.fault) for file in files)
    print(f"{len(files)} files: {len(files) - bad} usable, {bad} not; records in {options.into}.")
    if options.notes:
        _write_notes(files, options.notes)
    site = options.into / _SITE
    if not os.path.lexists(site) and bad < len(files):
        site.write_text(_SITE_TEXT, "utf-8")
        print(f"Wrote {site}: name the course and its teacher there.")
    return int(bad > 0)


def _files(path: Path) -> Iterator[Submission]:
    """List the records below a folder, or one record; links are listed and not followed."""
    if not path.is_dir() or path.is_symlink():
        yield Submission(path, path.stem)
        return
    for folder, folders, names in os.walk(path):
        attached = {name.removesuffix(ENDING) for name in names if name.endswith(ENDING)}
        links = [name for name in folders if Path(folder, name).is_symlink()]
        folders[:] = sorted(name for name in {*folders} - attached if name[0] != ".")
        for name in sorted((*names, *links)):
            file = Path(folder, name)
            if name[0] != "." and (name.endswith((ENDING, *_ARCHIVES)) or file.is_symlink()):
                parts = file.relative_to(path).parts
                yield Submission(file, parts[0] if parts[1:] else file.stem)


def _check(file: Submission) -> None:
    """Read and check one file; whatever it holds, the others are read too."""
    path = file.path
    if path.is_symlink():
        file.fault = "is a link, which is not followed; hand in the file itself"
    elif path.suffix in _ARCHIVES:
        file.fault = "is packed; unpack it into the folder and collect again"
    else:
        file.stored, file.checks = check_file(path)
        problems = [check.text for check in file.checks if check.level == "problem"]
        if problems or not file.stored:
            file.fault = problems[0]
        else:
            file.fault = _fault_of_study(path.parent.name, file.stored.record)


def _fault_of_study(folder: str, record: Record) -> str:
    """Explain a record with the folder or cases of another study; empty for a correct record."""
    study = record.study
    if folder in registry.STUDIES and folder != study:
        return f"is a record of {study} in a folder of {folder}; move it, or measure"
    fitting = [name for name in registry.STUDIES if _fits(record, name)]
    if study not in registry.STUDIES or not fitting or study in fitting:
        return ""  # an older record has factors that no study varies today
    others = " or ".join(fitting)
    return f"its cases are not of {study}, but of {others}; hand in the original file"


def _fits(record: Record, study: str) -> bool:
    """Return True if a case of the record has only factors and subjects of the study."""
    factors = {factor.name: factor.possible for factor in registry.load(study).factors}
    subjects = factors.get("subject", (None,))  # None: a study without this factor
    for case in record.cases:
        if case.factors.keys() <= factors.keys() and case.factors.get("subject") in subjects:
            return True
    return False


def _compare(files: Sequence[Submission]) -> None:
    """Refuse copies of one measurement, and note several records of one machine."""
    seen: dict[tuple[str, bytes], Submission] = {}
    machines: dict[tuple[str, str], Submission] = {}
    for file in files:
        if file.fault or not file.stored:
            continue
        record = file.stored.record
        earlier = machines.setdefault((record.study, record.environment.key), file)
        if earlier is not file:
            text = f"the machine of {earlier.who} again; its runs are pooled or the newest counts"
            file.checks.insert(0, RecordCheck("machine", text, "note"))
        for kind, mark in fingerprints([record]):
            first = seen.setdefault((kind, mark), file)
            copied = first is not file and (kind == "samples" or earlier is file)
            if copied and not file.fault:
                file.fault = f"has the {kind} of {first.path.name} ({first.who}); measure"


def _copy(file: Submission, into: Path) -> None:
    """Copy a record with its attachments, never over another record and never through a link."""
    assert file.stored
    folder, name = file.path.parent.resolve(), file.path.name
    target = into / file.stored.record.study / name
    try:
        _refuse_links(into, target.parent, target, attachments_folder(target))
        attachments = read_attachments(file.stored, ("*",), folder)
        contents = {n: content for n, content in attachments.items() if isinstance(content, bytes)}
        text = file.path.read_bytes()
        if target.exists() and target.read_bytes() == text:
            write_attachments(target, contents)  # attachments may be handed in later
        else:
            write_files(target, text, contents)
    except (OSError, RecordError) as error:
        file.fault = str(error)


def _refuse_links(*paths: Path) -> None:
    for path in paths:
        if path.is_symlink():
            raise RecordError(f"{path}: is a link, through which nothing is written; remove it.")


def _write_notes(files: Sequence[Submission], folder: Path) -> None:
    """Write a note for each student: all checks of the files that they handed in."""
    _refuse_links(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts: dict[str, list[str]] = {}
    for file in files:
        verdict = f"cannot be used: {file.fault}" if file.fault else "can be used"
        lines = [f"{file.path.name}: {verdict}", *(check.line() for check in file.checks), ""]
        texts.setdefault(file.who, []).extend(lines)
    for who, lines in texts.items():
        note = folder / f"{who}.txt"
        _refuse_links(note)
        note.write_text("\n".join(lines), "utf-8")
