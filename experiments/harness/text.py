"""Text that may go into a record: short, and without paths of the machine."""

from __future__ import annotations

import re
from pathlib import Path

_PATH = re.compile(r"(?<![\w.])(?:/[\w.+@~-]+)+/([\w.+@~-]+)")


def without_paths(text: str) -> str:
    """Absolute paths reduced to their last part, so that no folder or user name is recorded."""
    return _PATH.sub(r"\1", text)


def last_line(text: str) -> str:
    """The last line that says something, which in a traceback is the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return without_paths(lines[-1]) if lines else "no message"


def first_line(text: str) -> str:
    """The first line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return without_paths(lines[0]) if lines else "no message"


def period_text(seconds: float) -> str:
    """A time that is only estimated: ``45 s``, ``3 min``."""
    return f"{5 * round(seconds / 5)} s" if seconds < 90 else f"{round(seconds / 60)} min"


def text_of(path: Path) -> str:
    """A file of the system as text; nothing where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
