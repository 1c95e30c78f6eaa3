"""Strict reading of data files: what is wrong, where, what was found, and what to do.

msgspec decodes and validates in one pass; this module turns its errors into one sentence with the
file, the field and what stands there.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from report.errors import RecordError
from report.records.files import read_file
from report.records.strict_yaml import YamlError, parse_yaml

Kind = TypeVar("Kind")

#: What decoding raises for a text that is not what was asked for.
NO_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: Bytes of a text that is read once more for a message; a list of nothing takes 20 times its room.
_SMALL: Final = 2**25

_TOP: Final = "the top level"
_OFFSET: Final = re.compile(r" ?\(byte (\d+)\)")
_STEP: Final = re.compile(r"[^.\[\]]+|\[\d+\]|\[\.\.\.\]")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_ABSENT: Final = re.compile(r"Object missing required field `(.*)`")
_NOT_ALLOWED: Final = re.compile(r"Invalid (?:enum )?value (.*)", re.DOTALL)


def read_strictly(
    path: Path, kind: type[Kind], language: Literal["JSON", "YAML"], remedy: str, data: Path
) -> Kind:
    """The content of ``path``, a file of the directory ``data``, as a ``kind``.

    Raises ``RecordError`` with the file, the field, what was found and the ``remedy``.
    """
    place = place_of(path)
    text = read_file(path, place, remedy, data)
    if language == "YAML":
        return _decode_yaml(text, kind, place, remedy)
    found = parse_json(text, msgspec.json.Decoder(kind).decode, place, remedy)
    refuse_repeated_keys(text, place, remedy)
    return found


def _decode_yaml(text: bytes, kind: type[Kind], place: str, remedy: str) -> Kind:
    try:
        document = parse_yaml(text.decode("utf-8-sig"))
        return msgspec.convert(document.content, kind)
    except UnicodeDecodeError as error:
        raise RecordError(f"{place}: {_no_utf8(text, error)}; {remedy}.") from error
    except YamlError as error:
        what = f"line {error.line}: not valid YAML: {_plain(error.what)}"
        raise RecordError(f"{place}: {what}; {remedy}.") from error
    except msgspec.ValidationError as error:
        steps = _with_key(
            _path_of(error), document.content, lambda part: msgspec.convert(part, kind)
        )
        where = f"{place}: line {document.line(steps)}"
        raise _refusal(error, document.content, where, remedy, steps) from error


def parse_json(text: bytes, decode: Callable[[bytes], Kind], place: str, remedy: str) -> Kind:
    """``decode(text)``, where ``decode`` belongs to a typed msgspec decoder of JSON.

    Raises ``RecordError`` that begins with ``place`` and ends with ``remedy``.
    """
    try:
        return decode(text)
    except msgspec.ValidationError as error:
        content = _untyped(text)
        steps = _with_key(_path_of(error), content, lambda part: decode(msgspec.json.encode(part)))
        raise _refusal(error, content, place, remedy, steps) from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{place}: {_no_utf8(text, error)}; {remedy}.") from error
    except msgspec.DecodeError as error:
        at = _OFFSET.search(str(error))
        line = text.count(b"\n", 0, int(at[1]) if at else len(text)) + 1
        what = _OFFSET.sub("", str(error)).removeprefix("JSON is malformed: ")
        raise RecordError(f"{place}: line {line}: not valid JSON: {what}; {remedy}.") from error
    except RecursionError:
        # Without «from»: the chain of a thousand frames would bury the sentence.
        raise RecordError(
            f"{place}: not valid JSON: found brackets nested without end; {remedy}."
        ) from None


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


def refuse_repeated_keys(text: bytes, place: str, remedy: str) -> None:
    """Raise ``RecordError`` for a key that stands twice in one object of ``text``, valid JSON.

    Decoding keeps the last of the two without a word.
    """

    def check(pairs: list[tuple[str, object]]) -> None:
        if len(dict(pairs)) < len(pairs):
            twice = repeated(name for name, _ in pairs)
            raise RecordError(f"{place}: found the field {twice} twice in one object; {remedy}.")

    json.loads(text, object_pairs_hook=check, parse_int=len, parse_float=len)


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


def _no_utf8(text: bytes, error: UnicodeDecodeError) -> str:
    line = text.count(b"\n", 0, error.start) + 1
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
    return RecordError(f"{place}: {where.removeprefix('.') or _TOP}: {_plain(what)}; {remedy}.")


def _path_of(error: msgspec.ValidationError) -> list[str]:
    at = str(error).partition(" - at ")[2]
    return _STEP.findall(at.strip("`").removeprefix("$"))


def _with_key(steps: list[str], content: object, check: Callable[[object], object]) -> list[str]:
    """The path with the key for which msgspec, in a mapping of any keys, writes ``[...]``.

    ``check`` raises ``ValidationError`` for ``content``, as it does with that key alone.
    """
    if "[...]" not in steps:
        return steps
    at = steps.index("[...]")
    holder = _value_at(content, steps[:at])
    if not isinstance(holder, dict):
        return steps
    whole = dict(holder)
    for key, value in whole.items():
        holder.clear()
        holder[key] = value
        try:
            check(content)
        except msgspec.ValidationError as error:
            if _path_of(error) == steps:
                return [*steps[:at], key, *steps[at + 1 :]]
        finally:
            holder.clear()
            holder.update(whole)
    return steps


def _value_at(content: object, steps: Iterable[str]) -> object:
    """What stands at a path; unset where there is no such place."""
    for step in steps:
        if step.startswith("["):
            index = step.strip("[]")
            if not (index.isdigit() and isinstance(content, list) and int(index) < len(content)):
                return msgspec.UNSET
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


def _untyped(text: bytes) -> object:
    """The content without types, for messages; unset if it is large, or no JSON after the fault."""
    try:
        return msgspec.json.decode(text) if len(text) < _SMALL else msgspec.UNSET
    except NO_JSON:
        return msgspec.UNSET


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "").split()).rstrip(".")
