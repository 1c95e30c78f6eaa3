"""What a build says of its papers and records when it ends, and what studies there are."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from report.commands.arguments import TEMPLATE
from report.commands.console import shown
from report.engine.pipeline import ROOT, Request, Summary
from report.engine.steps import ARTIFACTS, RECORDS
from report.studies import STUDIES


def lines(request: Request, summary: Summary, seconds: float, *, explain: bool) -> Iterator[str]:
    """Where the papers are, from which records, what is wrong with these, and by which engine.

    ``explain`` tells of every record.
    """
    # Notes that begin with a study are counted in its line.
    own = tuple(f"{study}: " for study in request.studies)
    notes = [notice for notice in summary.notices if not notice.startswith(own)]
    yield from _written(request, summary)
    if summary.stale or explain:
        yield from _records(request, summary, explain=explain)
    yield from (f"note: {notice}" for notice in (summary.notices if explain else notes))
    papers = _counted(len(request.studies), "paper")
    if summary.stale:
        made = sum(bool(paths) for study, paths in summary.made.items() if study != "site")
        failed = sum(each.study != "site" for each in summary.failed)
        counts = f"{made} made, {len(request.studies) - made - failed} current"
        errors = f"{_counted(len(summary.failed), 'error')}, {_counted(len(notes), 'note')}"
        yield f"{papers}: {counts}, {errors} in {seconds:.1f} s"
    else:
        yield f"Nothing to do: all is up to date ({papers})."
    if "pdf" in request.outputs:
        yield summary.engine


def _written(request: Request, summary: Summary) -> Iterator[str]:
    """The folders that have something new, and the page to open, in a line."""
    paths = (path for paths in summary.made.values() for path in paths)
    names = (path.relative_to(request.out).parts[0] for path in paths)
    folders = sorted({name for name in names if not name.startswith(".")})
    if folders:
        one = len(request.studies) == 1
        page = Path("html", request.studies[0] if one else "", "index.html")
        written = f"{shown(request.out)}: wrote {', '.join(folders)}"
        yield f"{written}; open {shown(request.out / page)}" if "html" in folders else written


def _records(request: Request, summary: Summary, *, explain: bool) -> Iterator[str]:
    """How many records each paper uses, a line a study; or what became of each of them."""
    failed = {failure.study for failure in summary.failed}
    for study in request.studies:
        path = request.out / ARTIFACTS / study / RECORDS
        if study in failed or not path.exists():
            continue
        listed = json.loads(path.read_text("utf-8"))
        used = sum(each["used"] for each in listed)
        line = f"{study}: {_counted(len(listed), 'record')}, {used} used"
        if gated := sum(notice.startswith(f"{study}: ") for notice in summary.notices):
            line += f", {_counted(gated, 'note')} on their series"
        yield f"{line}." if explain or not listed else f"{line}; --explain lists them."
        if explain:
            # What is left out has a note.
            kept = (each for each in listed if not each.get("left_out"))
            yield from (f"  data/{each['file']}: {each['why']}." for each in kept)


def _counted(number: int, what: str) -> str:
    """``1 paper``, ``2 papers``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def list_studies(options: Namespace) -> int:
    """Print each study with the title of its paper, where its template gives one."""
    width = max(map(len, STUDIES))
    for study in STUDIES:
        template = ROOT / "templates" / "papers" / f"{study}{TEMPLATE}"
        text = template.read_text("utf-8") if template.is_file() else ""
        found = re.search(r"^title: *(.+)$", text, re.MULTILINE)
        title = found[1].strip("\"' ") if found else ""
        print(f"{study:{width}}  {title}".rstrip())
    return 0
