"""Strict reading of JSON and YAML, with errors that name the file, the field and the remedy.

msgspec converts a text to the requested type; this module rewrites an error of msgspec as one
sentence with the file, the field, the value and the remedy.  A repeated field is an error.

Only plain YAML is accepted: mappings, lists, text, and null, true, false and numbers as in JSON.
``yes``, ``017``, ``1:30``, ``.inf``, ``2001-01-01`` and all keys are text.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import yaml

from report.core.errors import RecordError, shorten
from report.core.records.files import read_file

#: Type that is read from a file.
Kind = TypeVar("Kind")
#: The path to a value: names of fields, and indexes such as ``[3]``.
Steps: TypeAlias = tuple[str, ...]

#: Exceptions of decoders for a text that is not JSON of the requested type.
NO_JSON: Final = (msgspec.DecodeError, ValueError, RecursionError)
#: Limit on YAML (characters).
_LARGEST_YAML: Final = 2**18
#: Limit on the depth of nested lists and mappings.
_DEEPEST_YAML: Final = 50
#: YAML values that are not text: the literals of JSON, with numbers of at most 64 bits.
_LITERAL: Final = re.compile(
    r"null|true|false|-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?"
)

#: A list of numbers, of which most of a record consists; it cannot contain a field.
_NUMBERS: Final = re.compile(rb"\[[-+0-9.eE, ]{9,}\]")
#: A colon as an escape; behind an even number of backslashes, ``u003a`` is plain text.
_ESCAPED_COLON: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u003[aA]")
#: A step of a path in messages of msgspec: a field, an index, or ``[...]`` for any key of a dict.
_STEP: Final = re.compile(r"[^.\[\]]+|\[\d+\]|\[\.\.\.\]")
#: Messages of msgspec that name a field which is not in the path.
_FIELD: Final = re.compile(r"Object (?:contains unknown|missing required) field `(.*)`", re.DOTALL)


class SyntaxFaultError(Exception):
    """Invalid JSON or YAML: the fault, and the line (from 1; 0 if unknown)."""

    def __init__(self, fault: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {fault}" if line else fault)
        self.fault = fault
        self.line = line


def read_strictly(path: Path, kind: type[Kind], remedy: str, data: Path) -> Kind:
    """Read ``path``, a file in the data directory ``data``, as a ``kind``.

    A file whose name ends in ``.json`` is JSON, any other YAML.  Raises ``RecordError`` with the
    file, the field, the fault and the ``remedy``.
    """
    place = place_of(path)
    text = read_file(path, place, remedy, data)
    if path.suffix == ".json":
        return parse_json(text, kind, place, remedy)
    try:
        content, lines = parse_yaml(text.decode("utf-8-sig"))
    except (UnicodeDecodeError, SyntaxFaultError) as error:
        raise RecordError(f"{place}: {_reason_of(error)}; {remedy}.") from error
    return _convert(content, kind, place, remedy, lines)


def parse_json(
    text: bytes, kind: type[Kind], place: str, remedy: str, *, unaltered: bool = False
) -> Kind:
    """Decode JSON as a ``kind``; a repeated field is an error.

    ``unaltered``: this program wrote the text, so no field is repeated, and none is searched, which
    takes half of the time of decoding.  Raises ``RecordError``, which begins with ``place`` and
    ends with ``remedy``.
    """
    with suppress(*NO_JSON):
        if unaltered or not may_repeat_a_field(text):
            return msgspec.json.decode(text, type=kind)
    return _convert(_plain_json(text, place, remedy), kind, place, remedy, {})


def may_repeat_a_field(text: bytes) -> bool:
    """Tell whether an object of valid JSON may repeat a field; decoders would use the last value.

    A repeated field is lost if the text is decoded and encoded again, and its colon with it; no
    other colon is lost.  Counting colons is faster than looking at each object.  An escaped colon
    is encoded as a colon.

    Lists of numbers are replaced by 0 first, since decoding is then three times as fast.  Two field
    names that contain such lists may become equal, which causes a false alarm.  A text with escapes
    stays as it is: of two equal names, only the one without escapes would change.
    """
    colons = text.count(b":")
    if b"\\" in text:
        colons += len(_ESCAPED_COLON.findall(text))
    else:
        text = _NUMBERS.sub(b"0", text)
    return msgspec.json.encode(msgspec.json.decode(text)).count(b":") < colons


def _plain_json(text: bytes, place: str, remedy: str) -> Any:
    """Decode JSON to dicts, lists and scalars; raises ``RecordError`` for invalid JSON."""
    try:
        content = json.loads(text.decode(), object_pairs_hook=_object_without_repeats)
        # Refuses what ``json`` accepts: NaN, lone surrogates and numbers out of range.
        msgspec.json.decode(text)
        return content
    except (*NO_JSON, SyntaxFaultError) as error:
        reason = _reason_of(error)
    # Raised outside the handler, since a traceback with a RecursionError has a thousand frames.
    raise RecordError(f"{place}: {reason}; {remedy}.")


def _reason_of(error: Exception) -> str:
    """Describe why a text could not be decoded."""
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b"\n", 0, error.start) + 1
        return str(SyntaxFaultError(f"found {byte_at(error)}", line))
    if isinstance(error, RecursionError):
        return "found brackets nested without end"
    if isinstance(error, SyntaxFaultError):
        return str(error)
    return f"not valid JSON: {error}"


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a JSON object; raises ``SyntaxFaultError`` for a repeated field."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        duplicate = repeated(name for name, _ in pairs)
        raise SyntaxFaultError(f"found the field {duplicate} twice in one object")
    return fields


def refuse_first(faults: Iterable[str], place: str | Path, remedy: str) -> None:
    """Raise ``RecordError`` for the first of ``faults`` («field: fault»), if any."""
    for fault in faults:
        where = place_of(place) if isinstance(place, Path) else place
        raise RecordError(f"{where}: {fault}; {remedy}.")


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that appears twice, or None."""
    for name, count in Counter(names).items():
        if count > 1:
            return name
    return None


def place_of(path: Path) -> str:
    """Return a path for messages: the name of the file and of its two innermost folders."""
    return Path(*path.parts[-3:]).as_posix()


def byte_at(error: UnicodeDecodeError) -> str:
    """Describe the first byte that is not UTF-8."""
    return f"the byte 0x{error.object[error.start]:02x}, which is not UTF-8"


def parse_yaml(text: str) -> tuple[Any, dict[Steps, int]]:
    """Parse YAML; return its content, and path to a value → line of the value (from 1).

    Raises ``SyntaxFaultError`` for invalid YAML, and for YAML that is not plain (see the top).
    """
    if len(text) > _LARGEST_YAML:
        raise _invalid_yaml(f"found {len(text):,} characters, more than {_LARGEST_YAML:,}")
    lines: dict[Steps, int] = {}
    try:
        # Events of a text: stream start, document start, content, document end, stream end.
        events: Iterator[Any] = yaml.parse(text, yaml.CBaseLoader)
        next(events)
        if not isinstance(next(events), yaml.DocumentStartEvent):
            return None, lines
        content = _content(events, next(events), (), lines)
        next(events)
        event_after_document = next(events)
        if isinstance(event_after_document, yaml.DocumentStartEvent):
            raise _invalid_yaml("found another document", _line_index(event_after_document))
        return content, lines
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n")
        raise _invalid_yaml(f"found the character U+{int(error.character):04X}", line) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        fault = error.problem or error.context or "cannot be read"
        raise _invalid_yaml(fault, mark.line if mark else 0) from error


def _invalid_yaml(fault: str, line_index: int = 0) -> SyntaxFaultError:
    """Return the error for a fault in the line ``line_index`` (from 0)."""
    return SyntaxFaultError(f"not valid YAML: {_clean_message(fault)}", line_index + 1)


def _line_index(event: Any) -> int:
    """Return the line (from 0) in which the value of PyYAML's ``event`` begins."""
    return int(event.start_mark.line)


def _content(events: Iterator[Any], event: Any, path: Steps, lines: dict[Steps, int]) -> Any:
    """Convert the value at ``path`` that begins with ``event`` to plain Python objects.

    Consumes the further ``events`` of the value, and adds the line of each value to ``lines``.
    Refuses aliases (which could expand without limit), tags (which could run code), keys that are
    not text, and repeated keys.
    """
    line = _line_index(event)
    lines[path] = line + 1
    if len(path) > _DEEPEST_YAML:
        raise _invalid_yaml("found brackets nested without end", line)
    if isinstance(event, yaml.AliasEvent):
        raise _invalid_yaml(f"found the alias *{event.anchor}; write the value itself", line)
    if event.tag:
        raise _invalid_yaml(f"found the tag {event.tag}; write plain text or a number", line)
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event)
    if isinstance(event, yaml.SequenceStartEvent):
        elements: list[Any] = []
        while not isinstance(element := next(events), yaml.SequenceEndEvent):
            elements.append(_content(events, element, (*path, f"[{len(elements)}]"), lines))
        return elements
    mapping: dict[str, Any] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        if not isinstance(key, yaml.ScalarEvent) or not key.value:
            raise _invalid_yaml("found a key that is no text", _line_index(key))
        if key.value in mapping:
            raise _invalid_yaml(f"found the key {key.value} twice", _line_index(key))
        mapping[key.value] = _content(events, next(events), (*path, key.value), lines)
    return mapping


def _scalar(event: Any) -> Any:
    """Return the value of a scalar event: text, unless it is unquoted and empty or a literal."""
    is_quoted = bool(event.style)
    if not is_quoted and not event.value:
        return None
    if not is_quoted and _LITERAL.fullmatch(event.value):
        return json.loads(event.value)
    return event.value


def _convert(
    content: Any, kind: type[Kind], place: str, remedy: str, lines: Mapping[Steps, int]
) -> Kind:
    """Convert plain content to a ``kind``.

    Raises ``RecordError`` with the field and, if it is in ``lines``, the line of the fault.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        steps, fault = _fault(error, content, kind)
        line = ""
        for length in range(len(steps) + 1):
            path = tuple(steps[:length])
            if path in lines:  # a longer path leads to an inner value, whose line is more exact
                line = f"line {lines[path]}: "
        field = "".join(step if step.startswith("[") else f".{step}" for step in steps)
        field = field.removeprefix(".") or "the top level"
        raise RecordError(f"{place}: {line}{field}: {fault}; {remedy}.") from error


def _fault(error: msgspec.ValidationError, content: Any, kind: Any) -> tuple[list[str], str]:
    """Return the path to the faulty value of ``content``, and a description of the fault."""
    steps = _steps_with_keys(error, content, kind)
    message = str(error).partition(" - at ")[0]
    fault, _, found_type = message.partition(", got ")
    if match := _FIELD.fullmatch(message):
        steps = [*steps, match[1]]
    elif message.startswith("Expected"):
        value = _describe_value(_value_at(content, steps)) or found_type
        if value:
            fault = f"{fault}, found {value}"
    return steps, _clean_message(fault[:1].lower() + fault[1:])


def _steps_with_keys(error: msgspec.ValidationError, content: Any, kind: Any) -> list[str]:
    """Return the path to the faulty value; replace each ``[...]`` of msgspec by the actual key.

    Converts ``content`` with one key of the dict at a time until the error has the same path, and
    leaves only this key in the dict.
    """
    path = _path_of(error)
    steps = list(path)
    for index, step in enumerate(path):
        mapping = _value_at(content, steps[:index])
        if step != "[...]" or not isinstance(mapping, dict):
            continue
        for key, value in dict(mapping).items():
            mapping.clear()
            mapping[key] = value
            try:
                msgspec.convert(content, kind)
            except msgspec.ValidationError as error_of_key:
                if _path_of(error_of_key) == path:
                    steps[index] = key
                    break
    return steps


def _path_of(error: msgspec.ValidationError) -> list[str]:
    """Return the steps in a message such as «Expected `int` - at `$.cases[3].factors`»."""
    path = str(error).partition(" - at ")[2]
    return _STEP.findall(path.strip("`").removeprefix("$"))


def _value_at(content: Any, steps: Iterable[str]) -> Any:
    """Return the value at the path ``steps``; ``UNSET`` if the path does not exist."""
    for step in steps:
        try:
            key = int(step.strip("[]")) if isinstance(content, list) else step
            content = content[key]
        except (LookupError, TypeError, ValueError):
            return msgspec.UNSET
    return content


def _describe_value(content: object) -> str:
    """Describe a value for a message; empty for ``UNSET``."""
    if content is msgspec.UNSET:
        return ""
    if isinstance(content, dict):
        return "an object"
    if isinstance(content, list):
        return f"a list of {len(content)}"
    return shorten(json.dumps(content, ensure_ascii=False), 60)


def _clean_message(text: str) -> str:
    """Return a library's message on one line, without backticks and final full stop."""
    return " ".join(text.replace("`", "").split()).rstrip(".")
