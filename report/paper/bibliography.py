"""The bibliography: whole entries, each with a key of its own, and no TeX but accents and type.

It is read by pandoc and by TeX, which would follow ``\\input`` in a field; a damaged entry would
swallow the next one without a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from report.errors import RecordError
from report.records.strict import byte_at

_REMEDY: Final = "fix the entry, or restore the file with git"
#: TeX's way around a backslash, and commands that are no letters, accents, signs or type.
_FOREIGN: Final = re.compile(
    r"\^\^|\\(?!(?:AA|AE|L|OE?|aa|ae|b|c|d|dh|dj|emph|i|j|k|l|mathrm|mu|ng|oe?|pi|r|ss|t|th|times|"
    r"text(?:bf|it|sc|tt|superscript|subscript|endash|backslash|asciitilde|trademark)|u|url|v)"
    r"(?![A-Za-z]))[A-Za-z]+"
)
_DEEPEST: Final = 16


def _nested() -> str:
    """Text whose braces close, up to a depth; BibTeX counts every brace."""
    text = r"[^{}]*+"
    for _ in range(_DEEPEST):
        text = rf"(?:[^{{}}]++|\{{{text}\}})*+"
    return text


_TEXT: Final = _nested()
_START: Final = re.compile(r"^(?=@)", re.MULTILINE)
_HEAD: Final = re.compile(r"@([A-Za-z]+)\{\s*([A-Za-z0-9][\w:./+-]*)\s*,")
_BODY: Final = re.compile(rf"({_TEXT})\}}")
_FIELD: Final = re.compile(
    r"\s*([A-Za-z-]+)\s*=\s*"
    rf'(\{{{_TEXT}\}}|"(?:[^{{}}"]++|\{{{_TEXT}\}})*+"|\d+)\s*(?:,|\Z)\s*'
)
_PARENT: Final = re.compile(r"\bcrossref\s*=\s*[{\"]?\s*([^}\",\s]+)", re.IGNORECASE)
_BLANK: Final = re.compile(r"(?:[ \t]*(?:%[^\n]*)?(?:\n|\Z))*")


def check_bibliography(content: bytes, place: str) -> None:
    """Raise ``RecordError`` for the first fault; ``place`` names the file."""
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecordError(f"{place}: line {line}: found {byte_at(error)}; {_REMEDY}.") from error
    for line, entry, fault in _faults(text):
        name = f"entry {entry}" if entry else "between entries"
        raise RecordError(f"{place}: line {line}, {name}: {fault}; {_REMEDY}.")


def cited_entries(
    bibliography: str, cites: Callable[[str], bool], *, keep_lines: bool = False
) -> str:
    """The entries whose keys a paper ``cites``, and those that they refer to by ``crossref``.

    With ``keep_lines`` each stands in the same line as before, after lines that are empty.
    """
    before, *entries = _START.split(bibliography)
    keyed = [(head[2] if (head := _HEAD.match(entry)) else "", entry) for entry in entries]
    wanted = {key for key, _ in keyed if cites(key)}
    wanted |= {parent for key, entry in keyed if key in wanted for parent in _PARENT.findall(entry)}
    return before + "".join(
        entry if key in wanted else "\n" * entry.count("\n") if keep_lines else ""
        for key, entry in keyed
    )


def _faults(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, entry and fault; an entry begins with the @ at the beginning of a line."""
    before, *entries = _START.split(text)
    if not _BLANK.fullmatch(before):
        yield 1, "", "found text that is neither an entry nor a comment after %"
    line = 1 + before.count("\n")
    keys: set[str] = set()
    for entry in entries:
        head = _HEAD.match(entry)
        key = head[2] if head else entry[:30].partition("\n")[0]
        for fault in _entry_faults(entry, head):
            yield line, key, fault
        if key.lower() in keys:
            yield line, key, "found this key twice"
        keys.add(key.lower())
        line += entry.count("\n")


def _entry_faults(entry: str, head: re.Match[str] | None) -> Iterator[str]:
    if head is None or head[1].lower() in ("string", "preamble", "comment"):
        yield "expected @type{key, with a key of letters and digits"
        return
    body = _BODY.match(entry, head.end())
    if body is None:
        yield "its braces do not close, or lie too deep in each other"
    elif not _BLANK.fullmatch(entry, body.end()):
        yield "found text after its closing brace"
    else:
        yield from _field_faults(body[1].strip())


def _field_faults(body: str) -> Iterator[str]:
    position, names = 0, set[str]()
    while position < len(body):
        field = _FIELD.match(body, position)
        if field is None:
            yield f"expected name = {{text}}, found {body[position : position + 30]!r}"
            return
        name = field[1].lower()
        if name in names:
            yield f"found the field {name} twice"
        names.add(name)
        if foreign := _FOREIGN.search(field[2]):
            yield f"{name}: found {foreign[0]}, where only accents and signs may be TeX"
        position = field.end()
