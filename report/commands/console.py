"""What a build says on a terminal or in a log: steps, files, notes, errors and the closing line."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final, TextIO

from report.engine.pipeline import Announce, Request, Summary

_COLOURS: Final = {"error": "31", "note": "33"}


def marked(word: str, stream: TextIO) -> str:
    """``error:`` or ``note:``, in colour on a terminal unless ``NO_COLOR`` is set."""
    plain = not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return f"{word}:" if plain else f"\x1b[1;{_COLOURS[word]}m{word}:\x1b[0m"


def closing_line(request: Request, summary: Summary, seconds: float) -> str:
    """``6 papers: 1 made, 5 current, 0 errors, 1 note in 4.9 s``."""
    made = sum(bool(outcome.study and outcome.made) for outcome in summary.outcomes)
    failed = len(summary.failed)
    current = len(request.studies) - made - sum(bool(each.study) for each in summary.failed)
    parts = f"{made} made, {current} current, {counted(failed, 'error')}"
    notes = counted(len(summary.notices), "note")
    return f"{counted(len(request.studies), 'paper')}: {parts}, {notes} in {seconds:.1f} s"


def counted(number: int, what: str) -> str:
    """``1 paper``, ``2 papers``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def announcer() -> Announce:
    """Shows each step with the time left, on the standard error.

    In a terminal the line is overwritten; elsewhere, such as in a log, each step is a line.
    """
    live, start = sys.stderr.isatty(), time.monotonic()

    def announce(words: str, share: float) -> None:
        elapsed = time.monotonic() - start
        known = 0 < share < 1 and elapsed >= 1
        left = f", about {elapsed * (1 - share) / share:.0f} s left" if known else ""
        text = f"[{share:4.0%}] {words}{left}"
        sys.stderr.write(f"\r\x1b[K{text}" if live else f"{text}\n")
        sys.stderr.flush()

    return announce


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
