"""What all commands say on a terminal or in a log: lines at once, and how far a build is."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from report.engine.pipeline import Announce


def announcer(*, quiet: bool, explain: bool = False) -> Announce:
    """Shows each step with the time left, on the standard error, if that is a terminal.

    ``explain`` prints why each one runs.
    """
    live, start = sys.stderr.isatty() and not quiet, time.monotonic()

    def announce(words: str, share: float, why: str) -> None:
        if explain and why:
            print(f"{words}: {why}")
        elapsed = time.monotonic() - start
        known = 0 < share < 1 and elapsed >= 1
        left = f", about {elapsed * (1 - share) / share:.0f} s left" if known else ""
        if live:
            print(f"\r\x1b[K[{share:4.0%}] {words}{left}", end="", file=sys.stderr, flush=True)

    return announce


def clear_line() -> None:
    """Take away the line of progress."""
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)


def say(text: str) -> None:
    """Print a line in place of that of progress, at once, also into a pipe."""
    clear_line()
    print(text, flush=True)


def shown(path: Path) -> str:
    """A path as short as it may be typed here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
