"""Read output of programs, without folders of this machine, and write short texts for messages."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from report.core.records.record import Level

#: Absolute path in a folder; the group is the last part.
_PATH = re.compile(r"(?<![\w.])(?:/[\w.+@~-]+)+/([\w.+@~-]+)")


def without_paths(text: str) -> str:
    """Reduce absolute paths to their last part, so that no folder or user name is recorded."""
    return _PATH.sub(r"\1", text)


def last_line(text: str) -> str:
    """Return the last line that is not blank (of a traceback, the error), or "no message"."""
    return without_paths((text.strip() or "no message").splitlines()[-1].strip())


def first_line(text: str) -> str:
    """Return the first line that is not blank, or "no message"."""
    return without_paths((text.strip() or "no message").splitlines()[0].strip())


def read_text(path: Path) -> str:
    """Read a file of the system as text; empty if the file cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def program_output(*words: str, folder: Path | None = None) -> str | None:
    """Run a program in ``folder`` for at most 30 s and return its output; None if it fails."""
    try:
        run = subprocess.run(words, cwd=folder, capture_output=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(run.stdout).strip()  # folder names need not be UTF-8


def flatten(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield path (``host.flags.1``) and value of each leaf; an empty container counts as None."""
    value = msgspec.to_builtins(value)
    if isinstance(value, list | tuple):
        value = dict(enumerate(value, 1))
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from flatten(part, f"{path}.{key}".removeprefix("."))
    else:
        yield path, None if value == {} else value


def factors_text(factors: Mapping[str, Level]) -> str:
    """Join factors with their levels: ``batch=16, pass=forward``."""
    return ", ".join(f"{name}={level}" for name, level in factors.items())


def period_text(seconds: float) -> str:
    """Format an estimated time as ``45 s``, ``2.5 min`` or ``12 min``."""
    if seconds < 90:
        return f"{5 * round(seconds / 5)} s"
    if seconds < 300:
        return f"{round(2 * seconds / 60) / 2:g} min"
    return f"{round(seconds / 60)} min"
