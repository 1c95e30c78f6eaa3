"""Check of the bibliography: complete entries with unique keys, and no TeX but accents and type.

pandoc and BibTeX read the file and refuse most faults themselves.  Here are those that they would
not see: TeX would follow ``\\input`` in a field, and a damaged entry would swallow the next one.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from report.core.errors import RecordError
from report.core.records.strict import byte_at

_REMEDY: Final = "fix the entry, or restore the file with git"
#: Fields may nest this many braces.
_DEEPEST: Final = 6
#: TeX's notations for a hidden backslash, and commands other than accents, signs, letters and type.
_FOREIGN: Final = re.compile(
    r"\^\^|\$\$|\\(?!(?:AA|AE|H|L|OE?|aa|ae|b|c|d|dh|dj|emph|i|j|k|l|mathrm|mu|ng|oe?|pi|r|sim|ss|"
    r"t|th|times|text(?:bf|it|sc|tt|superscript|subscript|endash|backslash|trademark)|u|url|v)"
    r"(?![A-Za-z]))[A-Za-z]+"
)
#: A backslash at the end of a text; signs with which TeX drops what follows, or which it refuses.
_UNPRINTABLE: Final = re.compile(r"(?<!\\)[%&#]|\\\s*\Z")
#: Unprinted fields, in which programs keep names of files and notes.
_UNPRINTED: Final = {"abstract", "annote", "bibsource", "biburl", "file", "keywords", "timestamp"}

_BLANK: Final = r"(?:[ \t]*(?:%[^\n]*)?(?:\n|\Z))*"
_START: Final = re.compile(r"^(?=@)", re.MULTILINE)
_HEAD: Final = re.compile(
    r"@(?!(?:string|preamble|comment)\{)[A-Za-z]+\{\s*([A-Za-z0-9][\w:./+-]*)\s*(?=,)",
    re.IGNORECASE,
)
_END: Final = re.compile(rf"\s*(?:,\s*)?\}}{_BLANK}", re.ASCII)

_LINKED: Final = re.compile(r"\\url(?![A-Za-z])\s*(?:\{([^{}]*)\})?")
#: The form of an address and an example, by the name of its field.
_ADDRESSES: Final = {
    "url": (re.compile(r"https?://[^\s\\{}]+", re.IGNORECASE), "https://example.org"),
    "doi": (re.compile(r"10\.\d[\d.]*/[^\s\\{}]+"), "10.1000/182"),
}


def _nested(depth: int) -> str:
    """Write the pattern of a text whose braces are closed.

    Braces with a backslash are closed like others, since BibTeX counts them and pandoc does not.
    """
    pattern = r"[^{}\\]++|\\[^{}]"
    for _ in range(depth):
        pattern += rf"|\\\{{(?:{pattern})*+\\\}}|\{{(?:{pattern})*+\}}"
    return pattern


_FIELD: Final = re.compile(
    rf"\s*,\s*([A-Za-z-]+)\s*=\s*(\{{(?:{_nested(_DEEPEST)})*+\}}|[0-9]+"
    rf'|"(?:[^{{}}"\\]++|\\[^{{}}]|\{{(?:{_nested(1)})*+\}})*+")',
    re.ASCII,
)


class Field(NamedTuple):
    """A field of an entry: name in small letters, value, and the positions of both."""

    name: str
    value: str
    begin: int
    start: int
    end: int


def entries_of(bibliography: str) -> list[str]:
    """Split a bibliography before each entry; the first piece is the text before all entries."""
    return _START.split(bibliography)


def fields_of(entry: str) -> tuple[list[Field], int]:
    """List the fields of an entry, in linear time, and the position behind the last field."""
    head, fields = _HEAD.match(entry), list[Field]()
    position = head.end() if head else 0
    while match := _FIELD.match(entry, position):
        value = match[2] if match[2].isdecimal() else match[2][1:-1]
        position = match.end()
        fields.append(Field(match[1].lower(), value, match.start(1), match.start(2), position))
    return fields, position


def check_bibliography(content: bytes, place: str) -> None:
    """Raise ``RecordError`` for the first fault; ``place`` names the file.

    An entry begins with an @ at the beginning of a line.
    """
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecordError(f"{place}: line {line}: found {byte_at(error)}; {_REMEDY}.") from error
    before, *entries = entries_of(text)
    if not re.fullmatch(_BLANK, before):
        what = "between entries: found text that is neither an entry nor a comment after %"
        raise RecordError(f"{place}: line 1, {what}; {_REMEDY}.")
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
    if foreign := _FOREIGN.search(field.value):
        return f"{field.name}: found {foreign[0]}, where only accents and signs may be TeX"
    addresses = [("url", link[1] or "") for link in _LINKED.finditer(field.value)]
    if field.name in _ADDRESSES:
        addresses.append((field.name, field.value))
    for name, address in addresses:
        form, example = _ADDRESSES[name]
        if not form.fullmatch(address):
            what = f"{field.name}: found {address[:60]}, which is no address such as {example}"
            return f"{what}, without TeX's backslashes and braces"
    if field.name in _ADDRESSES or field.name in _UNPRINTED:
        return ""
    sign = _UNPRINTABLE.search(_LINKED.sub("", field.value))
    if sign is None:
        return ""
    return f"{field.name}: found {sign[0]}, which TeX does not print; write \\{sign[0]}"


def cited_entries(bibliography: str, cites: Callable[[str], bool]) -> str:
    """Keep the entries that a paper ``cites`` by key, and the parents in their ``crossref``."""
    before, *entries = entries_of(bibliography)
    keyed = [(head[1] if (head := _HEAD.match(entry)) else "", entry) for entry in entries]
    wanted = {key for key, _ in keyed if cites(key)}
    for key, entry in keyed:
        if key in wanted:
            wanted |= {field.value for field in fields_of(entry)[0] if field.name == "crossref"}
    return before + "".join(entry for key, entry in keyed if key in wanted)
