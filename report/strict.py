"""Strict reading of the small data files that people write: what is wrong, where, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from report.errors import RecordError

Kind = TypeVar("Kind")


def read_strictly(
    path: Path, kind: type[Kind], language: Literal["JSON", "YAML"], remedy: str
) -> Kind:
    """The content of ``path`` as a ``kind``.

    Raises ``RecordError`` with the file, the field, what was found and the ``remedy``.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{place_of(path)}: cannot be read ({error.strerror}).") from error
    decode = msgspec.json.decode if language == "JSON" else msgspec.yaml.decode
    try:
        return decode(text, type=kind)
    except msgspec.ValidationError as error:
        what, _, found = str(error).partition(" - at ")
        field = re.sub(r"^\$\.?", "", found.strip("`")) or "the top level"
        raise RecordError(f"{place_of(path)}: {field}: {_plain(what)}; {remedy}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(
            f"{place_of(path)}: not valid {language}: {_plain(str(error))}; {remedy}."
        ) from error


def refuse_first(faults: Iterable[str], path: Path, remedy: str) -> None:
    """Raise ``RecordError`` for the first of ``faults`` («field: what was found»), if any."""
    for fault in faults:
        raise RecordError(f"{place_of(path)}: {fault}; {remedy}.")


def repeated(names: Iterable[str]) -> str | None:
    """The first name that stands twice, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def place_of(path: Path) -> str:
    """The file as messages name it: with the two folders above it, wherever the project lies."""
    return Path(*path.parts[-3:]).as_posix()


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "").split()).rstrip(".")
