"""Print progress and summary of a build, and the list of studies."""

import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from report.commands.arguments import TEMPLATE_ENDING, request_of
from report.engine.build import Summary
from report.engine.steps import ARTIFACTS, RECORDS, ROOT, SITE, Announce
from report.evaluation import is_report, study_of
from report.studies import STUDIES


def announcer(*, quiet: bool, explain: bool = False) -> Announce:
    """Return a function that shows the running step and the remaining time on a terminal.

    With ``explain`` the function also prints why each step runs.
    """
    shows_progress, start = sys.stderr.isatty() and not quiet, time.monotonic()

    def announce(step: str, share: float, reason: str) -> None:
        if explain and reason:
            print(f"{step}: {reason}")
        elapsed = time.monotonic() - start
        remaining = ""
        if 0 < share < 1 and elapsed >= 1:
            remaining = f", about {elapsed * (1 - share) / share:.0f} s left"
        if shows_progress:
            line = f"\r\x1b[K[{share:4.0%}] {step}{remaining}"
            print(line, end="", file=sys.stderr, flush=True)

    return announce


def clear_line() -> None:
    """Erase the progress line on the terminal."""
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)


def say(text: str) -> None:
    """Print ``text`` in place of the progress line, without buffering."""
    clear_line()
    print(text, flush=True)


def short_path(path: Path) -> str:
    """Return a path relative to the current folder if it lies there, else unchanged."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def count_text(number: int, noun: str) -> str:
    """Return ``1 paper`` or ``2 papers``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def summary_lines(summary: Summary, seconds: float, *, explain: bool) -> Iterator[str]:
    """Yield a build's summary: results of reports, outputs, records, notes, counts, and PDF engine.

    With ``explain`` the summary lists every record and note.
    """
    request = summary.request
    # Notes that begin with the name of a study are counted in the line of the study.
    prefixes = tuple(f"{study}: " for study in request.studies)
    notes = [notice for notice in summary.notices if not notice.startswith(prefixes)]
    for report in filter(is_report, request.studies):
        path = request.out / "values" / f"{report}.json"
        if path.is_file():
            name = f"{study_of(report)}: " if request.studies[1:] else ""
            yield f"{name}{json.loads(path.read_text('utf-8'))['summary']}"
    yield from _outputs(summary)
    if summary.stale or explain:
        yield from _records(summary, explain=explain)
    for note in summary.notices if explain else notes:
        yield f"note: {note}"
    papers = count_text(len(request.studies), "paper")
    if summary.stale:
        built = sum(bool(paths) for study, paths in summary.replaced.items() if study != SITE)
        failed = sum(failure.study != SITE for failure in summary.failed)
        counts = f"{built} built, {len(request.studies) - built - failed} unchanged"
        errors = f"{count_text(len(summary.failed), 'error')}, {count_text(len(notes), 'note')}"
        yield f"{papers}: {counts}, {errors}, {seconds:.1f} s"
    else:
        yield f"Nothing to do: all is up to date ({papers})."
    if "pdf" in request.outputs:
        yield summary.engine_note


def _outputs(summary: Summary) -> Iterator[str]:
    """Yield the output folder and the page to open, unless the build wrote only hidden files."""
    request, written = summary.request, set()
    for paths in summary.replaced.values():
        written |= {path.relative_to(request.out).parts[0] for path in paths}
    if any(not name.startswith(".") for name in written):
        line = f"Wrote {short_path(request.out)}/."
        if "html" in written:
            study = request.studies[0] if len(request.studies) == 1 else ""
            line += f" Open {short_path(request.out / 'html' / study / 'index.html')}"
        yield line


def _records(summary: Summary, *, explain: bool) -> Iterator[str]:
    """Yield the counts of each study's used records and notes; with ``explain``, each record."""
    for study in summary.request.studies:
        path = summary.request.out / ARTIFACTS / study / RECORDS
        if study in {failure.study for failure in summary.failed} or not path.exists():
            continue
        records = json.loads(path.read_text("utf-8"))
        used = sum(record["used"] for record in records)
        line = f"{study}: {used} of {count_text(len(records), 'record')} used"
        if notes := sum(notice.startswith(f"{study}: ") for notice in summary.notices):
            line += f", {count_text(notes, 'note')}"
        yield line if explain or not records else f"{line} (see --explain)"
        for record in records if explain else ():
            if not record.get("left_out"):  # notes describe records that were left out
                yield f"  data/{record['file']}: {record['why']}."


def list_studies(options: Namespace) -> int:
    """Print each study with its paper's title; with --replicate, the summary of each report."""
    if options.replicate is not None:
        from report.evaluation.replicate import compute_output  # imports NumPy

        request = request_of(options)
        for report in request.studies:
            _, findings = compute_output(report, request.data, request.use[report])
            print(findings.facts["summary"])
        return 0
    from report.paper.manuscript import front_of

    width = max(map(len, STUDIES))
    for study in STUDIES:
        front = front_of(ROOT / "templates" / "papers" / f"{study}{TEMPLATE_ENDING}")
        print(f"{study:{width}}  {front.get('title', '')}")
    return 0
