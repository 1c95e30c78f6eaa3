"""Says on the standard error what runs now, how much is done and how long the rest takes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeAlias

#: Called with what begins now and the share of the work that is done.
Tell: TypeAlias = Callable[[str, float], None]


def teller(part: str) -> Tell:
    """Tells of one part; in a terminal the line is overwritten, elsewhere each step is a line."""
    live, start = sys.stderr.isatty(), time.monotonic()

    def tell(words: str, share: float) -> None:
        text = line(part, words, share, time.monotonic() - start)
        sys.stderr.write(f"\r\x1b[K{text}" if live else f"{text}\n")
        if live and share >= 1:
            sys.stderr.write("\n")
        sys.stderr.flush()

    return tell


def line(part: str, words: str, share: float, elapsed: float) -> str:
    """One line; the time left is told once a tenth of a part or a minute has passed."""
    known = 0 < share < 1 and (share > 0.1 or elapsed > 60)
    left = f", about {_duration(elapsed * (1 - share) / share)} left" if known else ""
    return f"{part} [{share:4.0%}] {words}{left}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
