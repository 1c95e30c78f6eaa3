"""Strict reading of JSON and YAML, with errors that name the file, the field and the remedy.

msgspec converts a text to the requested type; this module rewrites an error of msgspec as one
sentence with the file, the field and the value.  A repeated field is an error.

Only plain YAML is accepted: mappings, lists, text, and null, true, false and numbers as in JSON.
``yes``, ``017``, ``1:30``, ``.inf``, ``2001-01-01`` and all keys are text.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import yaml

from report.core.errors import RecordError, shorten
from report.core.records.files import read_file

Kind = TypeVar("Kind")
#: The path to a value: names of fields, and indexes such as ``[3]``.
Steps: TypeAlias = tuple[str, ...]

#: Exceptions that decoding raises for a text that is not JSON of the requested type.
NO_JSON: Final = (msgspec.DecodeError, ValueError, RecursionError)
#: Limits on YAML: characters, and lists within lists.
_LARGEST_YAML: Final = 2**18
_DEEPEST_YAML: Final = 50
#: YAML values that are not text: the literals of JSON, with numbers of at most 64 bits.
_LITERAL: Final = re.compile(
    r"null|true|false|-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?"
)

#: A list of numbers; most of a record consists of such lists, and they contain no fields.
_NUMBERS: Final = re.compile(rb"\[[-+0-9.eE, ]{9,}\]")
_STEP: Final = re.compile(r"[^.\[\]]+|\[\d+\]|\[\.\.\.\]")
_FIELD: Final = re.compile(r"Object (?:contains unknown|missing required) field `(.*)`", re.DOTALL)


class SyntaxFaultError(Exception):
    """Invalid JSON or YAML: the fault, and the line (from 1; 0 if unknown)."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {what}" if line else what)
        self.what, self.line = what, line


def read_strictly(path: Path, kind: type[Kind], remedy: str, data: Path) -> Kind:
    """Read ``path``, a file of the directory ``data``, as a ``kind``.

    Files that end in ``.json`` are JSON, others YAML.  Raises ``RecordError`` with the file, the
    field, the fault and the ``remedy``.
    """
    place = place_of(path)
    text = read_file(path, place, remedy, data)
    if path.suffix == ".json":
        return converted(_plain_json(text, place, remedy), kind, place, remedy)
    try:
        content, lines = parse_yaml(text.decode("utf-8-sig"))
    except (UnicodeDecodeError, SyntaxFaultError) as error:
        raise RecordError(f"{place}: {_reason(error)}; {remedy}.") from error
    return converted(content, kind, place, remedy, lines)


def parse_json(text: bytes, kind: type[Kind], place: str, remedy: str) -> Kind:
    """Decode JSON as a ``kind``; a repeated field is an error.

    Raises ``RecordError``, which begins with ``place`` and ends with ``remedy``.
    """
    with suppress(*NO_JSON):
        if not may_repeat_a_field(text):
            return msgspec.json.decode(text, type=kind)
    return converted(_plain_json(text, place, remedy), kind, place, remedy)


def may_repeat_a_field(text: bytes) -> bool:
    """Tell whether an object of valid JSON may repeat a field; decoders would use the last value.

    Lists of numbers are replaced by 0 first, since parsing is then three times as fast.  Field
    names that contain such a list may cause a false alarm.  In a text with backslashes, which could
    hide a repeated name, nothing is replaced.
    """
    short = text if b"\\" in text else _NUMBERS.sub(b"0", text)
    try:
        json.loads(short, object_pairs_hook=_object)
    except SyntaxFaultError:
        return True
    return False


def _plain_json(text: bytes, place: str, remedy: str) -> Any:
    """Decode JSON to plain Python objects; a repeated field is an error."""
    try:
        content = json.loads(text.decode(), object_pairs_hook=_object)
        # Refuse what json accepts: NaN, lone surrogates and numbers out of range.
        msgspec.json.decode(text)
        return content
    except (*NO_JSON, SyntaxFaultError) as error:
        what = _reason(error)
    # Raised outside the handler: a chained RecursionError has a thousand frames.
    raise RecordError(f"{place}: {what}; {remedy}.")


def _reason(error: Exception) -> str:
    """Describe in words why a text could not be decoded."""
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b"\n", 0, error.start) + 1
        return str(SyntaxFaultError(f"found {byte_at(error)}", line))
    if isinstance(error, RecursionError):
        return "found brackets nested without end"
    return str(error) if isinstance(error, SyntaxFaultError) else f"not valid JSON: {error}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = repeated(name for name, _ in pairs)
        raise SyntaxFaultError(f"found the field {twice} twice in one object")
    return fields


def refuse_first(faults: Iterable[str], place: str | Path, remedy: str) -> None:
    """Raise ``RecordError`` for the first of ``faults`` («field: fault»), if any."""
    for fault in faults:
        where = place_of(place) if isinstance(place, Path) else place
        raise RecordError(f"{where}: {fault}; {remedy}.")


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that appears twice, or None."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def place_of(path: Path) -> str:
    """Return a path for messages: the file and its two innermost folders."""
    return Path(*path.parts[-3:]).as_posix()


def byte_at(error: UnicodeDecodeError) -> str:
    """Describe the first byte that is not UTF-8."""
    return f"the byte 0x{error.object[error.start]:02x}, which is not UTF-8"


# ------------------------------------------------------------------------------------------ YAML


def parse_yaml(text: str) -> tuple[Any, dict[Steps, int]]:
    """Parse YAML; return its content, and the line of each value by the path to the value.

    Raises ``SyntaxFaultError``.
    """
    if len(text) > _LARGEST_YAML:
        raise _no_yaml(f"found {len(text):,} characters, more than {_LARGEST_YAML:,}")
    lines: dict[Steps, int] = {}
    try:
        events: Iterator[Any] = yaml.parse(text, yaml.CBaseLoader)
        next(events)
        if not isinstance(next(events), yaml.DocumentStartEvent):
            return None, lines
        content = _content(events, next(events), (), lines)
        next(events)
        if isinstance(second := next(events), yaml.DocumentStartEvent):
            raise _no_yaml("found another document", _line(second))
        return content, lines
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n")
        raise _no_yaml(f"found the character U+{int(error.character):04X}", line) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or "cannot be read"
        raise _no_yaml(what, mark.line if mark else 0) from error


def _no_yaml(what: str, line: int = 0) -> SyntaxFaultError:
    return SyntaxFaultError(f"not valid YAML: {_plain(what)}", line + 1)


def _line(event: Any) -> int:
    return int(event.start_mark.line)


def _content(events: Iterator[Any], event: Any, path: Steps, lines: dict[Steps, int]) -> Any:
    """Convert the value that begins with ``event`` to plain Python objects.

    Refuses aliases (which could expand without limit), tags (could run code), and repeated keys.
    """
    line = _line(event)
    lines[path] = line + 1
    if len(path) > _DEEPEST_YAML:
        raise _no_yaml("found brackets nested without end", line)
    if isinstance(event, yaml.AliasEvent):
        raise _no_yaml(f"found the alias *{event.anchor}; write the value itself", line)
    if event.tag:
        raise _no_yaml(f"found the tag {event.tag}; write plain text or a number", line)
    if isinstance(event, yaml.ScalarEvent):
        literal = not event.style and (_LITERAL.fullmatch(event.value) or not event.value)
        return json.loads(event.value or "null") if literal else event.value
    if isinstance(event, yaml.SequenceStartEvent):
        elements: list[Any] = []
        while not isinstance(element := next(events), yaml.SequenceEndEvent):
            elements.append(_content(events, element, (*path, f"[{len(elements)}]"), lines))
        return elements
    mapping: dict[str, Any] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        if not isinstance(key, yaml.ScalarEvent) or not key.value:
            raise _no_yaml("found a key that is no text", _line(key))
        if key.value in mapping:
            raise _no_yaml(f"found the key {key.value} twice", _line(key))
        mapping[key.value] = _content(events, next(events), (*path, key.value), lines)
    return mapping


# ------------------------------------------------------------------------------ msgspec's errors


def converted(
    content: Any,
    kind: type[Kind],
    place: str,
    remedy: str,
    lines: Mapping[Steps, int] = MappingProxyType({}),
) -> Kind:
    """Convert plain content to a ``kind``; raises ``RecordError``, with the line of the fault."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        steps, what = _fault(error, content, kind)
        known = [lines[path] for n in range(len(steps) + 1) if (path := (*steps[:n],)) in lines]
        line = f"line {known[-1]}: " if known else ""
        where = "".join(step if step.startswith("[") else f".{step}" for step in steps)
        where = where.removeprefix(".") or "the top level"
        raise RecordError(f"{place}: {line}{where}: {what}; {remedy}.") from error


def _fault(error: msgspec.ValidationError, content: Any, kind: Any) -> tuple[list[str], str]:
    """Return the path to the faulty value of ``content``, and the fault."""
    steps, message = _steps(error, content, kind), str(error).partition(" - at ")[0]
    expected, _, got = message.partition(", got ")
    if match := _FIELD.fullmatch(message):
        steps = [*steps, match[1]]
    elif message.startswith("Expected") and (value := _shown(_value_at(content, steps)) or got):
        expected = f"{expected}, found {value}"
    return steps, _plain(expected[:1].lower() + expected[1:])


def _steps(error: msgspec.ValidationError, content: Any, kind: Any) -> list[str]:
    """Return the path to the faulty value; replace each ``[...]`` of msgspec by the actual key.

    Tries one key at a time until the error has the same path; removes other keys from ``content``.
    """
    path = _path_of(error)
    steps = list(path)
    for at, step in enumerate(path):
        holder = _value_at(content, steps[:at])
        if step != "[...]" or not isinstance(holder, dict):
            continue
        for key, value in dict(holder).items():
            holder.clear()
            holder[key] = value
            try:
                msgspec.convert(content, kind)
            except msgspec.ValidationError as again:
                if _path_of(again) == path:
                    steps[at] = key
                    break
    return steps


def _path_of(error: msgspec.ValidationError) -> list[str]:
    at = str(error).partition(" - at ")[2]
    return _STEP.findall(at.strip("`").removeprefix("$"))


def _value_at(content: Any, steps: Iterable[str]) -> Any:
    """Return the value at a path; ``UNSET`` if the path does not exist."""
    for step in steps:
        try:
            content = content[int(step.strip("[]")) if isinstance(content, list) else step]
        except (LookupError, TypeError, ValueError):
            return msgspec.UNSET
    return content


def _shown(content: object) -> str:
    """Format a value for a message; empty for ``UNSET``."""
    if isinstance(content, dict | list):
        return "an object" if isinstance(content, dict) else f"a list of {len(content)}"
    return "" if content is msgspec.UNSET else shorten(json.dumps(content, ensure_ascii=False), 60)


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "").split()).rstrip(".")
