"""Text for records and for people: short, and without paths of the machine."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from report.records.record import Factor

_PATH = re.compile(r"(?<![\w.])(?:/[\w.+@~-]+)+/([\w.+@~-]+)")


def without_paths(text: str) -> str:
    """Absolute paths reduced to their last part, so that no folder or user name is recorded."""
    return _PATH.sub(r"\1", text)


def last_line(text: str) -> str:
    """The last line that says something, which in a traceback is the error."""
    return _lines(text)[-1]


def first_line(text: str) -> str:
    """The first line that says something."""
    return _lines(text)[0]


def _lines(text: str) -> list[str]:
    lines = [without_paths(line.strip()) for line in text.splitlines() if line.strip()]
    return lines or ["no message"]


def text_of(path: Path) -> str:
    """A file of the system as text; nothing where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def printed(*words: str, folder: Path | None = None) -> str | None:
    """What a program prints that runs in ``folder``; None where it cannot run, or fails."""
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(done.stdout).strip()  # which may name a folder of any letters


def flat(part: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Every single value in a part by the names that lead to it: ``host.family``; None if empty."""
    part = msgspec.to_builtins(part)
    if isinstance(part, list | tuple):
        part = dict(enumerate(part, 1))
    if isinstance(part, dict) and part:
        for key, value in part.items():
            yield from flat(value, f"{name}.{key}".removeprefix("."))
    else:
        yield name, None if part == {} else part


def factors_text(factors: Mapping[str, Factor]) -> str:
    """``batch=16, pass=forward``."""
    return ", ".join(f"{name}={value}" for name, value in factors.items())


def period_text(seconds: float) -> str:
    """A time that is only estimated: ``45 s``, ``3 min``."""
    return f"{5 * round(seconds / 5)} s" if seconds < 90 else f"{round(seconds / 60)} min"
