"""Text for records and for people: short, and without paths of the machine."""

from __future__ import annotations

import re
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


def duration_text(seconds: float) -> str:
    """Three significant digits in the unit that fits: µs, ms or s."""
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 999.5:  # what would be rounded to 1000 takes the next unit
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def bytes_text(count: float) -> str:
    """Bytes with a decimal prefix."""
    for factor, unit in ((1, "B"), (1e3, "kB"), (1e6, "MB")):
        if count / factor < 1000:
            return f"{count / factor:.4g} {unit}"
    return f"{count / 1e9:.4g} GB"
