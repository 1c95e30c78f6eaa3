"""Text for records and for people: short, and without paths of the machine."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from report.core.records.record import Level

_PATH = re.compile(r"(?<![\w.])(?:/[\w.+@~-]+)+/([\w.+@~-]+)")


def without_paths(text: str) -> str:
    """Reduce absolute paths to their last part, so that no folder or user name is recorded."""
    return _PATH.sub(r"\1", text)


def last_line(text: str) -> str:
    """Return the last line that is not empty, which in a traceback is the error."""
    return without_paths((text.strip() or "no message").splitlines()[-1].strip())


def first_line(text: str) -> str:
    """Return the first line that is not empty."""
    return without_paths((text.strip() or "no message").splitlines()[0].strip())


def read_text(path: Path) -> str:
    """Read a file of the system as text; empty if the file cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def program_output(*words: str, folder: Path | None = None) -> str | None:
    """Run a program in ``folder`` and return its output; None if it cannot run or fails."""
    try:
        run = subprocess.run(words, cwd=folder, capture_output=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(run.stdout).strip()  # folder names need not be UTF-8


def flatten(part: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield every leaf value with its path, such as ``host.family``; None for an empty part."""
    part = msgspec.to_builtins(part)
    if isinstance(part, list | tuple):
        part = dict(enumerate(part, 1))
    if isinstance(part, dict) and part:
        for key, value in part.items():
            yield from flatten(value, f"{name}.{key}".removeprefix("."))
    else:
        yield name, None if part == {} else part


def factors_text(factors: Mapping[str, Level]) -> str:
    """Join factors with their levels: ``batch=16, pass=forward``."""
    return ", ".join(f"{name}={level}" for name, level in factors.items())


def period_text(seconds: float) -> str:
    """Round an estimated time: ``45 s``, ``2.5 min``, ``12 min``."""
    if seconds < 90:
        return f"{5 * round(seconds / 5)} s"
    if seconds < 300:
        return f"{round(2 * seconds / 60) / 2:g} min"
    return f"{round(seconds / 60)} min"
