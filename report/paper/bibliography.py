"""Check the bibliography: complete entries, unique keys, no TeX but accents, signs and fonts.

pandoc and BibTeX report most faults themselves.  This module finds faults that they overlook: TeX
would obey ``\\input`` in a field, and a damaged entry would swallow the next entry.
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from figures.characters import escape_invisible
from report.core.errors import RecordError
from report.core.records.files import read_file, shared_file
from report.core.records.strict import byte_at

_REMEDY: Final = "fix the entry, or restore the file with git"
#: Deepest allowed nesting of braces within a field.
_MAXIMUM_DEPTH: Final = 6
#: Forbidden TeX: commands other than accents, signs, letters and fonts; notations of a backslash.
_FORBIDDEN_TEX: Final = re.compile(
    r"\^\^|\$\$|\\(?!(?:AA|AE|H|L|OE?|aa|ae|b|c|d|dh|dj|emph|i|j|k|l|mathrm|mu|ng|oe?|pi|r|sim|ss|"
    r"t|th|times|text(?:bf|it|sc|tt|superscript|subscript|endash|backslash|trademark)|u|url|v)"
    r"(?![A-Za-z]))[A-Za-z]+"
)
#: Signs that TeX prints only behind a backslash, and a backslash at the end of a text.
_UNESCAPED_SIGN: Final = re.compile(r"(?<!\\)[%&#]|\\\s*\Z")
#: Fields that no style prints; programs store file names and notes in them.
_NOT_PRINTED: Final = {"abstract", "annote", "bibsource", "biburl", "file", "keywords", "timestamp"}

#: Empty lines and comments.
_BLANK: Final = r"(?:[ \t]*(?:%[^\n]*)?(?:\n|\Z))*"
#: Position before an entry.
_START: Final = re.compile(r"^(?=@)", re.MULTILINE)
#: Beginning of an entry with its key, such as ``@article{key``.
_HEAD: Final = re.compile(
    r"@(?!(?:string|preamble|comment)\{)[A-Za-z]+\{\s*([A-Za-z0-9][\w:./+-]*)\s*(?=,)",
    re.IGNORECASE,
)
#: End of an entry, with the lines up to the next entry.
_END: Final = re.compile(rf"\s*(?:,\s*)?\}}{_BLANK}", re.ASCII)

_URL_COMMAND: Final = re.compile(r"\\url(?![A-Za-z])\s*(?:\{([^{}]*)\})?")
#: Field with an address → pattern of the address, and an example.
_ADDRESSES: Final = {
    "url": (re.compile(r"https?://[^\s\\{}]+", re.IGNORECASE), "https://example.org"),
    "doi": (re.compile(r"10\.\d[\d.]*/[^\s\\{}]+"), "10.1000/182"),
}


def _balanced_pattern(depth: int) -> str:
    """Return the pattern of a text with balanced braces, nested up to ``depth`` times.

    Escaped braces must balance too, since BibTeX counts them although pandoc does not.
    """
    pattern = r"[^{}\\]++|\\[^{}]"
    for _ in range(depth):
        pattern += rf"|\\\{{(?:{pattern})*+\\\}}|\{{(?:{pattern})*+\}}"
    return pattern


#: Field of an entry: name, and value in braces, as a number, or in quotation marks.
_FIELD: Final = re.compile(
    rf"\s*,\s*([A-Za-z-]+)\s*=\s*(\{{(?:{_balanced_pattern(_MAXIMUM_DEPTH)})*+\}}|[0-9]+"
    rf'|"(?:[^{{}}"\\]++|\\[^{{}}]|\{{(?:{_balanced_pattern(1)})*+\}})*+")',
    re.ASCII,
)


class Field(NamedTuple):
    """A field of an entry: lower-case name, value without its braces, positions in the entry."""

    name: str
    value: str
    name_start: int
    value_start: int
    end: int


def entries_of(bibliography: str) -> list[str]:
    """Split a bibliography into the text before all entries and one text per entry."""
    return _START.split(bibliography)


def fields_of(entry: str) -> tuple[list[Field], int]:
    """Return the fields of an entry, and the position behind the last field."""
    head, fields = _HEAD.match(entry), list[Field]()
    position = head.end() if head else 0
    while match := _FIELD.match(entry, position):
        value = match[2] if match[2].isdecimal() else match[2][1:-1]
        position = match.end()
        fields.append(Field(match[1].lower(), value, match.start(1), match.start(2), position))
    return fields, position


def copy_bibliography(data: Path, folder: Path) -> None:
    """Copy the bibliography beside the manuscript; raise ``RecordError`` if it is invalid."""
    path = shared_file("references.bib", data)
    content = read_file(path, "data/references.bib", "restore it with git", path.parent)
    check_bibliography(content, "data/references.bib")
    text = escape_invisible(content.decode("utf-8-sig"))
    (folder / path.name).write_text(text, "utf-8", newline="\n")


def check_bibliography(content: bytes, place: str) -> None:
    """Raise ``RecordError`` for the first fault of a bibliography; ``place`` names its file.

    The @ of every entry must be the first character of a line.
    """
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecordError(f"{place}: line {line}: found {byte_at(error)}; {_REMEDY}.") from error
    before, *entries = entries_of(text)
    if not re.fullmatch(_BLANK, before):
        fault = "found text that is neither an entry nor a comment after %"
        raise RecordError(f"{place}: before the first entry: {fault}; {_REMEDY}.")
    line, keys = 1 + before.count("\n"), set[str]()
    for entry in entries:
        head = _HEAD.match(entry)
        key = head[1] if head else entry[:30].partition("\n")[0]
        fault = _fault_of(entry) if head else "expected @type{key, with a key of letters and digits"
        if key.lower() in keys:
            fault = "found this key twice"
        if fault:
            raise RecordError(f"{place}: line {line}, entry {key}: {fault}; {_REMEDY}.")
        keys.add(key.lower())
        line += entry.count("\n")


def _fault_of(entry: str) -> str:
    """Describe the first fault of an entry; empty if there is none."""
    fields, end = fields_of(entry)
    if not _END.fullmatch(entry, end):
        return "expected name = {text} for each field, and a brace that closes it"
    for name, count in Counter(field.name for field in fields).items():
        if count > 1:
            return f"found the field {name} twice"
    return next(filter(None, map(_field_fault, fields)), "")


def _field_fault(field: Field) -> str:
    """Describe the first fault in the value of a field; empty if there is none."""
    if forbidden := _FORBIDDEN_TEX.search(field.value):
        return f"{field.name}: found {forbidden[0]}; TeX is allowed only for accents and signs"
    addresses = [("url", link[1] or "") for link in _URL_COMMAND.finditer(field.value)]
    if field.name in _ADDRESSES:
        addresses.append((field.name, field.value))
    for name, address in addresses:
        form, example = _ADDRESSES[name]
        if not form.fullmatch(address):
            fault = f"{field.name}: found {address[:60]}; expected an address such as {example}"
            return f"{fault}, without backslashes and braces"
    if field.name in _ADDRESSES or field.name in _NOT_PRINTED:
        return ""
    sign = _UNESCAPED_SIGN.search(_URL_COMMAND.sub("", field.value))
    if sign is None:
        return ""
    return f"{field.name}: found {sign[0]}, which TeX does not print; write \\{sign[0]}"


def cited_entries(bibliography: str, cites: Callable[[str], bool]) -> str:
    """Keep only the entries whose key a paper ``cites``, and those to which they ``crossref``."""
    before, *entries = entries_of(bibliography)
    entry_by_key = {head[1]: entry for entry in entries if (head := _HEAD.match(entry))}
    wanted = set(filter(cites, entry_by_key))
    for key, entry in entry_by_key.items():
        if key in wanted:
            wanted |= {field.value for field in fields_of(entry)[0] if field.name == "crossref"}
    return before + "".join(entry for key, entry in entry_by_key.items() if key in wanted)
