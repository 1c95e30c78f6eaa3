"""Strict reading of data files: what is wrong, where, what was found, and what to do.

msgspec makes of a text what was asked for, and this module of all its errors one sentence with the
file, the field and what stands there.  In what people write no field may stand twice.

Of YAML only the plain part is read: mappings, lists, text, and null, true, false and numbers as
JSON spells them.  ``yes``, ``017``, ``1:30``, ``.inf`` or ``2001-01-01`` are text, so that a field
that needs a number refuses them.  Keys are always text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from report.core.errors import RecordError, shorten
from report.core.records.files import read_file

Kind = TypeVar("Kind")

#: What decoding raises for a text that is not what was asked for.
NO_JSON: Final = (msgspec.DecodeError, ValueError, RecursionError)
#: The most characters of YAML that are read, which takes long.
_LARGEST_YAML: Final = 2**18
#: What is no text: as JSON writes it, and no larger than 64 bits hold.
_LITERAL: Final = re.compile(
    r"null|true|false|-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?"
)

#: A list of numbers alone, which nearly all of a record consists of and which holds no field.
_NUMBERS: Final = re.compile(rb"\[[-+0-9.eE, ]{9,}\]")
_STEP: Final = re.compile(r"[^.\[\]]+|\[\d+\]|\[\.\.\.\]")
_FIELD: Final = re.compile(r"Object (?:contains unknown|missing required) field `(.*)`", re.DOTALL)


class SyntaxFaultError(Exception):
    """Text that is not of its language: what was found, and in which line from 1, 0 for none."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {what}" if line else what)
        self.what, self.line = what, line


def read_strictly(path: Path, kind: type[Kind], remedy: str, data: Path) -> Kind:
    """The content of ``path``, a file of the directory ``data``, as a ``kind``.

    It is JSON if its name says so, else YAML.  Raises ``RecordError`` with the file, the field,
    what was found and the ``remedy``.
    """
    place = place_of(path)
    text = read_file(path, place, remedy, data)
    if path.suffix == ".json":
        return converted(_plain_json(text, place, remedy), kind, place, remedy)
    try:
        content, root = parse_yaml(text.decode("utf-8-sig"))
    except (UnicodeDecodeError, SyntaxFaultError) as error:
        raise RecordError(f"{place}: {_reason(error)}; {remedy}.") from error
    return converted(content, kind, place, remedy, root)


def read_by_study(
    path: Path, kind: type[Kind], remedy: str, data: Path, studies: Collection[str] | None = None
) -> dict[str, Kind]:
    """What a YAML file says of each study; nothing without a file, or where all is comments.

    Raises ``RecordError`` as ``read_strictly`` does, and for a name that is none of ``studies``.
    """
    if not path.exists():
        return {}
    file: Any = dict[str, kind] | None  # type: ignore[valid-type]
    found: dict[str, Kind] = read_strictly(path, file, remedy, data) or {}
    if studies is not None:
        unknown = (f"{n}: found a name that is no study" for n in found if n not in studies)
        refuse_first(unknown, path, f"the studies are {', '.join(studies)}")
    return found


def parse_json(text: bytes, kind: type[Kind], place: str, remedy: str) -> Kind:
    """Decode JSON that a program wrote as a ``kind``, in which no field may stand twice.

    Raises ``RecordError`` that begins with ``place`` and ends with ``remedy``.
    """
    with suppress(*NO_JSON):
        if not may_repeat_a_field(text):
            return msgspec.json.decode(text, type=kind)
    return converted(_plain_json(text, place, remedy), kind, place, remedy)


def may_repeat_a_field(text: bytes) -> bool:
    """Whether an object of valid JSON has a field twice, of which decoders keep the last.

    Only names that hold a list of numbers can look like one by mistake.  Leaving out such lists
    makes this three times as fast; a backslash could hide a name in one.
    """
    short = text if b"\\" in text else _NUMBERS.sub(b"0", text)
    try:
        json.loads(short, object_pairs_hook=_object)
    except SyntaxFaultError:
        return True
    return False


def _plain_json(text: bytes, place: str, remedy: str) -> Any:
    """What ``text`` says, as mappings, lists, text and numbers, in which no field stands twice."""
    try:
        content = json.loads(text.decode(), object_pairs_hook=_object)
        # Refuses what json lets pass: NaN, halves of characters and numbers out of range.
        msgspec.json.decode(text)
        return content
    except (*NO_JSON, SyntaxFaultError) as error:
        what = _reason(error)
    # Without the chain, of which a thousand frames would bury the sentence.
    raise RecordError(f"{place}: {what}; {remedy}.")


def _reason(error: Exception) -> str:
    """Why a text could not be decoded."""
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b"\n", 0, error.start) + 1
        return str(SyntaxFaultError(f"found {byte_at(error)}", line))
    if isinstance(error, RecursionError):
        return "found brackets nested without end"
    return str(error) if isinstance(error, SyntaxFaultError) else f"not valid JSON: {error}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = repeated(name for name, _ in pairs)
        raise SyntaxFaultError(f"found the field {twice} twice in one object")
    return found


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


# ------------------------------------------------------------------------------------------ YAML


class _Loader(yaml.BaseLoader):
    """Refuses what lets a small file grow, run code or say what it does not show."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line
        if isinstance(event, yaml.AliasEvent):
            raise _no_yaml(f"found the alias *{event.anchor}; write the value itself", line)
        if tag := getattr(event, "tag", None):
            raise _no_yaml(f"found the tag {tag}; write plain text or a number", line)
        getattr(event, "value", "").encode()  # refuses half of a character
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


def parse_yaml(text: str) -> tuple[Any, yaml.Node | None]:
    """The content of ``text``, and the node that it was made of; raises ``SyntaxFaultError``."""
    if len(text) > _LARGEST_YAML:
        raise _no_yaml(f"found {len(text):,} characters, more than {_LARGEST_YAML:,}")
    try:
        root = yaml.compose(text, _Loader)
        return (None if root is None else _of_node(root)), root
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        raise _no_yaml(f"found the character U+{int(error.character):04X}", line) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or "cannot be read"
        raise _no_yaml(what, mark.line if mark else 0) from error
    except RecursionError:
        raise _no_yaml("found brackets nested without end") from None
    except (ValueError, OverflowError) as error:
        raise _no_yaml("found an escape that is no character") from error


def _no_yaml(what: str, line: int = 0) -> SyntaxFaultError:
    return SyntaxFaultError(f"not valid YAML: {_plain(what)}", line + 1)


def _of_node(node: yaml.Node) -> Any:
    """What a node says; refuses what contradicts itself."""
    if isinstance(node, yaml.SequenceNode):
        return [_of_node(part) for part in node.value]
    if isinstance(node, yaml.ScalarNode):
        literal = node.style is None and (_LITERAL.fullmatch(node.value) or not node.value)
        return json.loads(node.value or "null") if literal else node.value
    found: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or not key.value:
            raise _no_yaml("found a key that is no text", key.start_mark.line)
        if key.value in found:
            raise _no_yaml(f"found the key {key.value} twice", key.start_mark.line)
        found[key.value] = _of_node(value)
    return found


def _line_of(node: yaml.Node, steps: Iterable[str]) -> int:
    """The line from 1 in which the value at a path begins, or the last part of it that is there."""
    for step in steps:
        index = step.strip("[]")
        if isinstance(node, yaml.SequenceNode) and index.isdigit():
            node = node.value[int(index)]
        elif isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == step), node)
    return int(node.start_mark.line) + 1


# ------------------------------------------------------------------------------ msgspec's errors


def converted(
    content: Any, kind: type[Kind], place: str, remedy: str, root: yaml.Node | None = None
) -> Kind:
    """Plain content as a ``kind``; raises ``RecordError``, with the line where ``root`` has it."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        steps, what = _fault(error, content, kind)
        line = f"line {_line_of(root, steps)}: " if root else ""
        where = "".join(step if step.startswith("[") else f".{step}" for step in steps)
        where = where.removeprefix(".") or "the top level"
        raise RecordError(f"{place}: {line}{where}: {what}; {remedy}.") from error


def _fault(error: msgspec.ValidationError, content: Any, kind: Any) -> tuple[list[str], str]:
    """The path to what is wrong with the ``content``, and what was found there."""
    steps, said = _steps(error, content, kind), str(error).partition(" - at ")[0]
    what, _, got = said.partition(", got ")
    if match := _FIELD.fullmatch(said):
        steps = [*steps, match[1]]
    elif said.startswith("Expected") and (found := _shown(_value_at(content, steps)) or got):
        what = f"{what}, found {found}"
    return steps, _plain(what[:1].lower() + what[1:])


def _steps(error: msgspec.ValidationError, content: Any, kind: Any) -> list[str]:
    """The path to what is no ``kind``, with the keys for which msgspec writes ``[...]``.

    Each is the one with which alone the error is the same; the others are taken out of the content.
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
    """What stands at a path; unset where there is no such place."""
    for step in steps:
        try:
            content = content[int(step.strip("[]")) if isinstance(content, list) else step]
        except (LookupError, TypeError, ValueError):
            return msgspec.UNSET
    return content


def _shown(content: object) -> str:
    """A value as a message shows it; empty if it cannot be told."""
    if isinstance(content, dict | list):
        return "an object" if isinstance(content, dict) else f"a list of {len(content)}"
    return "" if content is msgspec.UNSET else shorten(json.dumps(content, ensure_ascii=False), 60)


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "").split()).rstrip(".")
