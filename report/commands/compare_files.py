"""Comparing two builds byte for byte, and writing down what one consists of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: In the format of ``sha256sum``, for ``cd out && sha256sum -c MANIFEST.sha256``.
MANIFEST: Final = "MANIFEST.sha256"
#: What a build keeps for itself: the times of this machine's files, a lock, and scratch folders;
#: and what other commands than a build write.
_NOT_BUILT: Final = (".index.json", ".lock", MANIFEST, "diff")
_SCRATCH: Final = ".scratch-"
#: How much of a differing line, or of the bytes around a differing one, is shown.
_SHOWN: Final = 60


@dataclass(frozen=True)
class Difference:
    """A file that is not the same in two builds, and where it first differs."""

    name: str
    where: str


def files_of(out: Path) -> dict[str, str]:
    """Each built file below ``out``, relative to it, and its SHA-256 in hexadecimal; sorted."""
    paths = ((path.relative_to(out).as_posix(), path) for path in out.rglob("*") if path.is_file())
    built = sorted((name, path) for name, path in paths if _is_built(name))
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in built}


def _is_built(name: str) -> bool:
    top = name.partition("/")[0]
    return top not in _NOT_BUILT and not top.startswith(_SCRATCH)


def sums(files: Mapping[str, str]) -> str:
    """The text of ``MANIFEST.sha256`` for files and their digests."""
    return "".join(f"{files[name]}  {name}\n" for name in sorted(files))


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the files that two builds do not have in common with the same digest."""
    names = first.keys() | second.keys()
    return tuple(sorted(name for name in names if first.get(name) != second.get(name)))


def explain(names: Iterable[str], first: Path, second: Path) -> tuple[Difference, ...]:
    """Where the files ``names`` of the builds in two folders differ."""
    return tuple(Difference(name, _where(first / name, second / name)) for name in names)


def _where(first: Path, second: Path) -> str:
    if not second.is_file():
        return "only the first build made it"
    if not first.is_file():
        return "only the second build made it"
    return first_difference(first.read_bytes(), second.read_bytes())


def first_difference(one: bytes, other: bytes) -> str:
    """Where two unequal contents differ first: a line of text, or a byte and what is around it."""
    try:
        lines = one.decode().split("\n"), other.decode().split("\n")
    except UnicodeDecodeError:
        return _in_bytes(one, other)
    return _in_text(*lines) if b"\0" not in one + other else _in_bytes(one, other)


def _in_text(one: list[str], other: list[str]) -> str:
    line = _common(one, other)
    if line == min(len(one), len(other)):
        return _ending(one, other, "line")
    column = _common(one[line], other[line])
    shown = (repr(_around(text[line], column)) for text in (one, other))
    return f"line {line + 1}, column {column + 1}: {' and '.join(shown)}"


def _in_bytes(one: bytes, other: bytes) -> str:
    place = _common(one, other)
    if place == min(len(one), len(other)):
        return _ending(one, other, "byte")
    shown = (repr(_around(_readable(content), place)) for content in (one, other))
    return f"byte {place + 1} of {len(one)} and {len(other)}: {' and '.join(shown)}"


def _ending(one: Sequence[object], other: Sequence[object], what: str) -> str:
    """What to say where the shorter one is the beginning of the other."""
    which = "first" if len(one) < len(other) else "second"
    return f"the {which} ends after {what} {min(len(one), len(other))}"


def _readable(content: bytes) -> str:
    """One character for each byte; those that cannot be read are dots."""
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in content)


def _around(text: str, place: int) -> str:
    start = max(0, place - _SHOWN // 2)
    return text[start : start + _SHOWN]


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    """How many elements two sequences begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
