"""What a build says on a terminal or in a log: steps, files, notes, errors and the closing line."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from report.engine.pipeline import Announce, Request, Summary
from report.engine.steps import ARTIFACTS, RECORDS

_COLOURS: Final = {"error": "31", "note": "33"}


def marked(word: str, stream: TextIO) -> str:
    """``error:`` or ``note:``, in colour on a terminal unless ``NO_COLOR`` is set."""
    plain = not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return f"{word}:" if plain else f"\x1b[1;{_COLOURS[word]}m{word}:\x1b[0m"


def counted(number: int, what: str) -> str:
    """``1 paper``, ``2 papers``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def announcer() -> Announce:
    """Shows each step with the time left, on the standard error, if that is a terminal."""
    live, start = sys.stderr.isatty(), time.monotonic()

    def announce(words: str, share: float) -> None:
        elapsed = time.monotonic() - start
        known = 0 < share < 1 and elapsed >= 1
        left = f", about {elapsed * (1 - share) / share:.0f} s left" if known else ""
        if live:
            sys.stderr.write(f"\r\x1b[K[{share:4.0%}] {words}{left}")
            sys.stderr.flush()

    return announce


def print_summary(request: Request, summary: Summary, seconds: float, *, explain: bool) -> None:
    """Say where the papers are, which records they use, what is wrong with these, by which engine.

    ``explain`` tells of every record.
    """
    built = bool(summary.outcomes)
    lines = [*_written(request, summary)]
    lines += _records(request, summary, explain=explain) if built or explain else ()
    notes = summary.notices if explain else _notes(request, summary)
    lines += (f"{marked('note', sys.stdout)} {notice}" for notice in notes)
    papers = counted(len(request.studies), "paper")
    if built:
        made = sum(bool(each.made) for each in summary.outcomes if each.study != "site")
        failed = sum(each.study != "site" for each in summary.failed)
        counts = f"{made} made, {len(request.studies) - made - failed} current"
        counts += f", {counted(len(summary.failed), 'error')}"
        counts += f", {counted(len(_notes(request, summary)), 'note')}"
        lines.append(f"{papers}: {counts} in {seconds:.1f} s")
    else:
        lines.append(f"Nothing to do: all is up to date ({papers}).")
    if "pdf" in request.outputs:
        lines.append(summary.engine)
    print(*lines, sep="\n")


def _written(request: Request, summary: Summary) -> Iterator[str]:
    """The folders that have something new, and the page to open, in a line."""
    names = (path.relative_to(request.out).parts[0] for path in summary.made)
    folders = sorted({name for name in names if not name.startswith(".")})
    if folders:
        one = len(request.studies) == 1
        page = Path("html", request.studies[0] if one else "", "index.html")
        written = f"{shown(request.out)}: wrote {', '.join(folders)}"
        yield f"{written}; open {shown(request.out / page)}" if "html" in folders else written


def _notes(request: Request, summary: Summary) -> list[str]:
    """The notes but those of gates, which begin with a study and are counted in its line."""
    studies = tuple(f"{study}: " for study in request.studies)
    return [notice for notice in summary.notices if not notice.startswith(studies)]


def _records(request: Request, summary: Summary, *, explain: bool) -> Iterator[str]:
    """How many records each paper uses, a line a study; or what became of each of them."""
    failed = {outcome.study for outcome in summary.failed}
    for study in request.studies:
        path = request.out / ARTIFACTS / study / RECORDS
        if study in failed or not path.exists():
            continue
        listed = json.loads(path.read_text("utf-8"))
        used = sum(each["used"] for each in listed)
        line = f"{study}: {counted(len(listed), 'record')}, {used} used"
        if gated := sum(notice.startswith(f"{study}: ") for notice in summary.notices):
            line += f", {counted(gated, 'note')} on their series"
        yield f"{line}." if explain or not listed else f"{line}; --explain lists them."
        if explain:
            # What is left out has a note.
            kept = (each for each in listed if not each.get("left_out"))
            yield from (f"  data/{each['file']}: {each['why']}." for each in kept)


def clear_line() -> None:
    """Take away the line of progress."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")


def shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def say(text: str) -> None:
    """Print a line at once, also into a pipe."""
    clear_line()
    print(text, flush=True)
