"""Strict reading of data files: what is wrong, where, what was found, and what to do.

A text is decoded to plain content, in which no field stands twice, and msgspec makes of it what was
asked for; this module turns all errors into one sentence with the file, the field and what stands
there.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from report.errors import RecordError
from report.records.files import read_file
from report.records.strict_yaml import YamlError, line_of, parse_yaml

Kind = TypeVar("Kind")

#: What decoding raises for a text that is not what was asked for.
_NO_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
#: The escape of half of a character.
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")

_STEP: Final = re.compile(r"[^.\[\]]+|\[\d+\]|\[\.\.\.\]")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_ABSENT: Final = re.compile(r"Object missing required field `(.*)`")
_NOT_ALLOWED: Final = re.compile(r"Invalid (?:enum )?value (.*)", re.DOTALL)


class _FaultError(ValueError):
    """What is wrong with a text that is JSON but for this."""


def read_strictly(
    path: Path, kind: type[Kind], language: Literal["JSON", "YAML"], remedy: str, data: Path
) -> Kind:
    """The content of ``path``, a file of the directory ``data``, as a ``kind``.

    Raises ``RecordError`` with the file, the field, what was found and the ``remedy``.
    """
    place = place_of(path)
    text = read_file(path, place, remedy, data)
    if language == "JSON":
        return parse_json(text, kind, place, remedy)
    try:
        content, root = parse_yaml(text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RecordError(f"{place}: {_no_utf8(error)}; {remedy}.") from error
    except YamlError as error:
        what = f"line {error.line}: not valid YAML: {_plain(error.what)}"
        raise RecordError(f"{place}: {what}; {remedy}.") from error
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        steps = _steps(error, content, kind)
        where = f"{place}: line {line_of(root, steps)}"
        raise _refusal(error, content, where, remedy, steps) from error


def parse_json(
    text: bytes, kind: type[Kind], place: str, remedy: str, *, quick: bool = False
) -> Kind:
    """What ``text`` says, as a ``kind``; ``quick`` does not look for fields that stand twice.

    Raises ``RecordError`` that begins with ``place`` and ends with ``remedy``.
    """
    if quick:
        with suppress(*_NO_JSON):
            return msgspec.json.decode(text, type=kind)
    content = _plain_json(text, place, remedy)
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        steps = _steps(error, content, kind)
        raise _refusal(error, content, place, remedy, steps) from error


def _plain_json(text: bytes, place: str, remedy: str) -> Any:
    try:
        content = json.loads(text.decode(), object_pairs_hook=_object, parse_constant=_no_number)
        if _HALF.search(text):
            json.dumps(content, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        what = _no_utf8(error)
    except UnicodeEncodeError:
        what = "not valid JSON: found half of a character"
    except json.JSONDecodeError as error:
        what = f"line {error.lineno}: not valid JSON: {error.msg}"
    except _FaultError as error:
        what = str(error)
    except ValueError:
        what = "not valid JSON: found a whole number of thousands of digits"
    except RecursionError:
        what = "not valid JSON: found brackets nested without end"
    else:
        return content
    # Without the chain, of which a thousand frames would bury the sentence.
    raise RecordError(f"{place}: {what}; {remedy}.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _FaultError(f"found the field {repeated(k for k, _ in pairs)} twice in one object")
    return found


def _no_number(text: str) -> None:
    raise _FaultError(f"not valid JSON: found {text}")


@contextmanager
def no_cycles() -> Iterator[None]:
    """Let nobody search for reference cycles while much is made that is not in one, or stays.

    The search looks at every list and mapping that was made; in reading it would take half of the
    time, and in computing a tenth.
    """
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            gc.enable()


def refuse_first(faults: Iterable[str], place: str | Path, remedy: str) -> None:
    """Raise ``RecordError`` for the first of ``faults`` («field: what was found»), if any."""
    for fault in faults:
        where = place_of(place) if isinstance(place, Path) else place
        raise RecordError(f"{where}: {fault}; {remedy}.")


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


def byte_at(error: UnicodeDecodeError) -> str:
    """The byte where a text stops being UTF-8, in words."""
    return f"the byte 0x{error.object[error.start]:02x}, which is not UTF-8"


def _no_utf8(error: UnicodeDecodeError) -> str:
    line = error.object.count(b"\n", 0, error.start) + 1
    return f"line {line}: found {byte_at(error)}"


# ------------------------------------------------------------------------------ msgspec's errors


def _refusal(
    error: msgspec.ValidationError, content: object, place: str, remedy: str, steps: list[str]
) -> RecordError:
    """One sentence for what msgspec says of ``content`` as «what - at `$.path`», here ``steps``."""
    what = str(error).partition(" - at ")[0]
    if match := _UNKNOWN.fullmatch(what):
        steps, what = [*steps, match[1]], "found an unknown field"
    elif match := _ABSENT.fullmatch(what):
        steps, what = [*steps, match[1]], "this field is missing"
    elif match := _NOT_ALLOWED.fullmatch(what):
        what = f"found {match[1]}, which is none of the values allowed here"
    else:
        expectation, _, kind = _plain(what).partition(", got ")
        found = _shown(content, steps) or kind
        what = expectation[:1].lower() + expectation[1:] + (f", found {found}" if found else "")
    where = "".join(step if step.startswith("[") else f".{step}" for step in steps)
    return RecordError(
        f"{place}: {where.removeprefix('.') or 'the top level'}: {_plain(what)}; {remedy}."
    )


def _path_of(error: msgspec.ValidationError) -> list[str]:
    at = str(error).partition(" - at ")[2]
    return _STEP.findall(at.strip("`").removeprefix("$"))


def _steps(error: msgspec.ValidationError, content: object, kind: Any) -> list[str]:
    """The path to what is no ``kind``, with the key for which msgspec writes ``[...]``.

    In a mapping of any keys it is the one with which alone the error is the same.
    """
    steps = _path_of(error)
    holder = _value_at(content, steps[: steps.index("[...]")]) if "[...]" in steps else None
    if not isinstance(holder, dict):
        return steps
    whole = dict(holder)
    for key, value in whole.items():
        holder.clear()
        holder[key] = value
        try:
            msgspec.convert(content, kind)
        except msgspec.ValidationError as again:
            if _path_of(again) == steps:
                return [key if step == "[...]" else step for step in steps]
        finally:
            holder.clear()
            holder.update(whole)
    return steps


def _value_at(content: object, steps: Iterable[str]) -> object:
    """What stands at a path; unset where there is no such place."""
    for step in steps:
        index = step.strip("[]")
        if isinstance(content, list) and index.isdigit() and int(index) < len(content):
            content = content[int(index)]
        elif isinstance(content, dict) and step in content:
            content = content[step]
        else:
            return msgspec.UNSET
    return content


def _shown(content: object, steps: Iterable[str]) -> str:
    """The value at a path as a message shows it; empty if it cannot be told."""
    content = _value_at(content, steps)
    if content is msgspec.UNSET:
        return ""
    if isinstance(content, dict | list):
        return "an object" if isinstance(content, dict) else f"a list of {len(content)}"
    try:
        text = json.dumps(content, ensure_ascii=False, default=repr)
    except ValueError:  # a whole number of thousands of digits
        return ""
    return text if len(text) <= 60 else f"{text[:57]}..."


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "").split()).rstrip(".")
