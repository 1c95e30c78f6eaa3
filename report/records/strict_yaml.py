"""The plain part of YAML: mappings, lists, quoted and plain text, numbers as JSON writes them.

A plain scalar is null, true, false or a number only as JSON spells it; ``yes``, ``017``, ``1:30``,
``.inf`` or ``2001-01-01`` are text, so that a field that needs a number refuses them.  Keys are
always text.  What lets a small file grow, run code or contradict itself is refused: anchors,
aliases, tags, merge keys, keys that stand twice, several documents, deep nesting.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml

#: Steps from the top level to a value: names of fields and ``[index]``.
Path: TypeAlias = tuple[str, ...]

_DEEPEST: Final = 16
_LARGEST: Final = 2**18
#: Whole numbers of so many digits fit into 64 bits.
_DIGITS: Final = 18
_WORDS: Final[dict[str, bool | None]] = {"": None, "null": None, "true": True, "false": False}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WHOLE: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(_WHOLE.pattern + r"(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


class YamlError(ValueError):
    """Text that is not of the plain part of YAML: in which line from 1, at which path, and what."""

    def __init__(self, line: int, path: Path, what: str) -> None:
        super().__init__(what)
        self.line, self.path, self.what = line, path, what


@dataclass(frozen=True)
class Document:
    """The content of a text, and the line in which the value at each path begins."""

    content: Any
    lines: dict[Path, int]


def parse_yaml(text: str) -> Document:
    """Read ``text``; raises ``YamlError``."""
    if len(text) > _LARGEST:
        raise YamlError(1, (), f"found {len(text):,} characters, more than {_LARGEST:,}")
    builder = _Builder(yaml.parse(text, Loader=yaml.SafeLoader))
    try:
        return builder.document()
    except YamlError:
        raise
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        found = f"found the character U+{int(error.character):04X}"
        raise YamlError(line, (), f"{found}, which YAML does not allow") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or "cannot be read"
        raise YamlError(mark.line + 1 if mark else 1, (), what) from error
    except (ValueError, OverflowError) as error:
        # The parser turns escapes and versions into numbers without a look at their size.
        line = max(builder.lines.values(), default=1)
        raise YamlError(
            line, (), "found an escape or a version out of range here or later"
        ) from error


@dataclass
class _Builder:
    """Makes values of the parser's events; no deeper than ``_DEEPEST`` calls of itself."""

    events: Iterator[yaml.Event]
    lines: dict[Path, int] = field(default_factory=lambda: {(): 1})

    def document(self) -> Document:
        """The one document of the text; null where there is none."""
        next(self.events)  # the stream's start
        content = None
        if isinstance(next(self.events), yaml.DocumentStartEvent):
            content = self._value(next(self.events), ())
            next(self.events)  # the document's end
            if not isinstance(event := next(self.events), yaml.StreamEndEvent):
                raise _refusal(event, (), "found a second document")
        return Document(content, self.lines)

    def _value(self, event: yaml.Event, path: Path) -> Any:
        _check_plain(event, path)
        self.lines[path] = _line(event)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event, path)
        if len(path) >= _DEEPEST:
            raise _refusal(event, path[:3], f"found more than {_DEEPEST} levels of nesting")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(path)
        return self._mapping(path)

    def _list(self, path: Path) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            found.append(self._value(event, (*path, f"[{len(found)}]")))
        return found

    def _mapping(self, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = _key(event, path)
            if key in found:
                raise _refusal(event, (*path, key), "found this key twice")
            found[key] = self._value(next(self.events), (*path, key))
        return found


def _key(event: yaml.Event, path: Path) -> str:
    """The text of a key, whatever it looks like."""
    _check_plain(event, path)
    if not isinstance(event, yaml.ScalarEvent) or not event.value:
        raise _refusal(event, path, "found a key that is no text")
    if event.value == "<<" and event.implicit[0]:
        raise _refusal(event, path, "found a merge key <<")
    return str(event.value)


def _scalar(event: yaml.ScalarEvent, path: Path) -> bool | int | float | str | None:
    text = str(event.value)
    if not event.implicit[0]:  # quoted, or a block
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        if len(text.lstrip("-")) > _DIGITS:
            raise _refusal(event, path, f"found a number of {len(text)} digits")
        return int(text)
    if not _NUMBER.fullmatch(text):
        return text
    number = float(text)
    if not math.isfinite(number):
        raise _refusal(event, path, "found a number out of range")
    return number


def _check_plain(event: yaml.Event, path: Path) -> None:
    anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
    if isinstance(event, yaml.AliasEvent):
        raise _refusal(event, path, f"found the alias *{anchor}; write the value itself")
    if anchor:
        raise _refusal(event, path, f"found the anchor &{anchor}; write each value out")
    if tag:
        raise _refusal(event, path, f"found the tag {tag}; write plain text or a number")
    if _SURROGATE.search(getattr(event, "value", "")):
        raise _refusal(event, path, "found half of a character; write the whole one")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _refusal(event: yaml.Event, path: Path, what: str) -> YamlError:
    return YamlError(_line(event), path, what)
