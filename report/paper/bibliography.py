"""The bibliography: whole entries, each with a key of its own, and no TeX but accents and type.

It is read by pandoc and by TeX, which would follow ``\\input`` in a field; a damaged entry would
swallow the next one without a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
_BLANK: Final = r"(?:[ \t]*(?:%[^\n]*)?(?:\n|\Z))*"
_FIELD: Final = (
    r"\s*([A-Za-z-]+)\s*=\s*"
    rf'(\{{{_TEXT}\}}|"(?:[^{{}}"]++|\{{{_TEXT}\}})*+"|\d+)\s*(?:,|(?=\}}))\s*'
)
_START: Final = re.compile(r"^(?=@)", re.MULTILINE)
_HEAD: Final = re.compile(
    r"@(?!(?:string|preamble|comment)\{)[A-Za-z]+\{\s*([A-Za-z0-9][\w:./+-]*)\s*,", re.IGNORECASE
)
_REST: Final = re.compile(rf"((?:{_FIELD})*+)\s*\}}{_BLANK}")
_PARENT: Final = re.compile(r"\bcrossref\s*=\s*[{\"]?\s*([^}\",\s]+)", re.IGNORECASE)


def check_bibliography(content: bytes, place: str) -> None:
    """Raise ``RecordError`` for the first fault; ``place`` names the file.

    An entry begins with the @ at the beginning of a line.
    """
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecordError(f"{place}: line {line}: found {byte_at(error)}; {_REMEDY}.") from error
    before, *entries = _START.split(text)
    if not re.fullmatch(_BLANK, before):
        what = "between entries: found text that is neither an entry nor a comment after %"
        raise RecordError(f"{place}: line 1, {what}; {_REMEDY}.")
    line, keys = 1 + before.count("\n"), set[str]()
    for entry in entries:
        key, fault = _examined(entry)
        if key.lower() in keys:
            fault = "found this key twice"
        if fault:
            raise RecordError(f"{place}: line {line}, entry {key}: {fault}; {_REMEDY}.")
        keys.add(key.lower())
        line += entry.count("\n")


def cited_entries(
    bibliography: str, cites: Callable[[str], bool], *, keep_lines: bool = False
) -> str:
    """The entries whose keys a paper ``cites``, and those that they refer to by ``crossref``.

    With ``keep_lines`` each stands in the same line as before, after lines that are empty.
    """
    before, *entries = _START.split(bibliography)
    keyed = [(head[1] if (head := _HEAD.match(entry)) else "", entry) for entry in entries]
    wanted = {key for key, _ in keyed if cites(key)}
    wanted |= {parent for key, entry in keyed if key in wanted for parent in _PARENT.findall(entry)}
    return before + "".join(
        entry if key in wanted else "\n" * entry.count("\n") if keep_lines else ""
        for key, entry in keyed
    )


def _examined(entry: str) -> tuple[str, str]:
    """The key of an entry and what is wrong with it; where it has no key, how it begins."""
    head = _HEAD.match(entry)
    if head is None:
        return entry[:30].partition("\n")[0], "expected @type{key, with a key of letters and digits"
    rest, names = _REST.fullmatch(entry, head.end()), set[str]()
    if rest is None:
        return head[1], "expected name = {text} for each field, and a brace that closes it"
    for field in re.finditer(_FIELD, rest[1]):
        name, foreign = field[1].lower(), _FOREIGN.search(field[2])
        if name in names:
            return head[1], f"found the field {name} twice"
        if foreign:
            return head[1], f"{name}: found {foreign[0]}, where only accents and signs may be TeX"
        names.add(name)
    return head[1], ""
