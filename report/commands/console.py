"""Output to a terminal or a log: lines of text, and the progress of a build."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from report.core.errors import unwritable
from report.engine.steps import Announce


@contextmanager
def stage_for(out: Path, announce: Announce) -> Iterator[Path]:
    """Provide an empty folder for new outputs, as the only build that writes to ``out``.

    Raises ``OutputError`` where a file cannot be written.
    """
    from report.engine.place import only_build, stage_in  # slow to import

    with only_build(out, announce), stage_in(out) as stage:
        try:
            yield stage
        except OSError as error:
            raise unwritable(error) from error


def announcer(*, quiet: bool, explain: bool = False) -> Announce:
    """Return a function that shows the running step and the remaining time on a terminal.

    With ``explain`` it also prints why each step runs.
    """
    live, start = sys.stderr.isatty() and not quiet, time.monotonic()

    def announce(step: str, share: float, reason: str) -> None:
        if explain and reason:
            print(f"{step}: {reason}")
        elapsed = time.monotonic() - start
        remaining = ""
        if 0 < share < 1 and elapsed >= 1:
            remaining = f", about {elapsed * (1 - share) / share:.0f} s left"
        if live:
            line = f"\r\x1b[K[{share:4.0%}] {step}{remaining}"
            print(line, end="", file=sys.stderr, flush=True)

    return announce


def clear_line() -> None:
    """Erase the line of progress."""
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)


def say(text: str) -> None:
    """Print a line instead of the progress, at once even into a pipe."""
    clear_line()
    print(text, flush=True)


def shown(path: Path) -> str:
    """Return a path relative to the current folder where it lies in it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def counted(number: int, noun: str) -> str:
    """Return ``1 paper`` or ``2 papers``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
