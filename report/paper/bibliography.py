"""Check of the bibliography: complete entries with unique keys, and no TeX but accents and type.

pandoc and TeX read the file.  TeX would follow ``\\input`` in a field, and a damaged entry would
silently swallow the next one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from report.core.errors import RecordError
from report.core.records.strict import byte_at

_REMEDY: Final = "fix the entry, or restore the file with git"
#: TeX's notations for a hidden backslash, and commands other than accents, signs, letters and type.
#: \H is allowed in braces only, since BibTeX turns it into \h in a title.
_FOREIGN: Final = re.compile(
    r"\^\^|\$\$|(?<!\{)\\H(?![A-Za-z])|\\(?!(?:AA|AE|H|L|OE?|aa|ae|b|c|d|dh|dj|emph|i|j|k|l|mathrm|mu|ng|oe?|pi|r|sim|ss|t|th|"
    r"times|text(?:bf|it|sc|tt|superscript|subscript|endash|backslash|asciitilde|trademark|less|"
    r"greater|underscore)|u|url|v)(?![A-Za-z]))[A-Za-z]+"
)
#: An accent without a letter, an index without a sign; then commands and TeX's markup.
_TOKEN: Final = re.compile(
    r"(\\(?:['\"`^~=.]|[Hbcdkrtuv](?![A-Za-z]))"
    r"(?!\s*(?:[A-Za-z]|\\(?:[ijoO]|a[ae]|A[AE])(?![A-Za-z])|\{\s*(?:[A-Za-z]+|\\[ij]\s*)?\}))|"
    r"[_^]\s*[_^$}']|\\\s+\Z)|\\[A-Za-z]+|\\.|[$%&#_^{}]",
    re.DOTALL,
)
#: Tokens allowed only in formulas, since pandoc drops them elsewhere; tokens allowed anywhere.
_IN_FORMULAS: Final = {r"\mathrm", r"\mu", r"\pi", r"\sim", r"\times", "_", "^"}
_ANYWHERE: Final = re.compile(r"[{}]|\\[%&#$_{}\s,/\\-]")
_IN_TEXT: Final = re.compile(r"\\(?:[A-Za-z]+|['\"`^~=.])")
_GROUP: Final = re.compile(r"\{[^{}]*\}")
#: Unprinted fields, in which programs keep names of files and notes.
_UNPRINTED: Final = {"abstract", "annote", "bibsource", "biburl", "file", "keywords", "timestamp"}
_DEEPEST: Final = 16

_BLANK: Final = r"(?:[ \t]*(?:%[^\n]*)?(?:\n|\Z))*"
_START: Final = re.compile(r"^(?=@)", re.MULTILINE)
_HEAD: Final = re.compile(
    r"@(?!(?:string|preamble|comment)\{)[A-Za-z]+\{\s*([A-Za-z0-9][\w:./+-]*)\s*(?=,)",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"\s*,\s*([A-Za-z-]+)\s*=\s*", re.ASCII)
_NUMBER: Final = re.compile("[0-9]+")
_MARK: Final = re.compile(r'\\?[{}"]')
_END: Final = re.compile(rf"\s*(?:,\s*)?\}}{_BLANK}", re.ASCII)

#: Addresses in text, and how databases export the characters of an address for TeX.
_LINKED: Final = re.compile(r"\\url(?![A-Za-z])\s*(\{(?:[^{}]|\{[^{}]*\})*\})?")
_ESCAPED: Final = re.compile(
    r"\\text(asciitilde|less|greater|underscore)(?![A-Za-z])(?: |\{\})?|\$\\?([_<>]|sim)\$|"
    r"\\([_%&#$~])(?:\{\})?|&(lt|gt|amp);|\\url(?![A-Za-z])|[{}\s]"
)
_CHARACTERS: Final = {
    "asciitilde": "~", "sim": "~", "less": "<", "lt": "<", "greater": ">", "gt": ">",
    "underscore": "_", "amp": "&",
}  # fmt: skip
_DOI_PREFIX: Final = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:)(?=10\.)", re.IGNORECASE)
#: The form of an address and an example, by the name of its field.
_ADDRESSES: Final = {
    "url": (re.compile(r"https?://[^\s\\]+", re.IGNORECASE), "https://example.org"),
    "doi": (re.compile(r"10\.\d[\d.]*/[^\s\\]+"), "10.1000/182"),
}


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
    while name := _NAME.match(entry, position):
        start, end = name.end(), _value_end(entry, name.end())
        if end < 0:
            break
        value = entry[start:end] if entry[start].isdecimal() else entry[start + 1 : end - 1]
        fields.append(Field(name[1].lower(), value, name.start(1), start, end))
        position = end
    return fields, position


def _value_end(entry: str, start: int) -> int:
    """Find the end of the value that begins at ``start``; -1 if BibTeX and pandoc would disagree.

    BibTeX counts every brace, pandoc only those without a backslash.
    """
    if number := _NUMBER.match(entry, start):
        return number.end()
    first, opened = entry[start : start + 1], list[str]()
    for mark in _MARK.finditer(entry, start) if first in ("{", '"') else ():
        sign, outside = mark[0], not opened
        if outside and first == '"' and sign.startswith("\\"):
            break
        if sign.endswith("{"):
            opened.append(sign)
        elif sign.endswith("}"):
            if outside or opened.pop() != sign.replace("}", "{"):
                break
        elif outside and mark.start() > start:
            return mark.end()
        if first == "{" and not opened:
            return mark.end()
        if len(opened) > _DEEPEST:
            break
    return -1


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
    lines, parents = dict[str, int](), dict[str, str]()
    for entry in entries:
        key, fields, fault = _examined(entry)
        if key.lower() in keys:
            fault = "found this key twice"
        if fault:
            raise RecordError(f"{place}: line {line}, entry {key}: {fault}; {_REMEDY}.")
        keys.add(key.lower())
        lines[key] = line
        parents.update((key, field.value) for field in fields if field.name == "crossref")
        line += entry.count("\n")
    for key, parent in parents.items():
        if parent in parents or lines.get(parent, 0) <= lines[key]:
            why = "has a crossref itself" if parent in parents else "is no entry below this one"
            fault = f"entry {key}: crossref leads to {parent}, which {why}"
            raise RecordError(f"{place}: line {lines[key]}, {fault}; {_REMEDY}.")


def with_plain_addresses(bibliography: str) -> str:
    """Write each DOI and address without the escapes that TeX needs."""
    written = []
    for entry in entries_of(bibliography):
        position = 0
        for field in fields_of(entry)[0]:
            value = _LINKED.sub(_plain_link, entry[field.start : field.end])
            if field.name in _ADDRESSES:
                value = f"{{{_plain_address(field.name, field.value)}}}"
            written += [entry[position : field.start], value]
            position = field.end
        written.append(entry[position:])
    return "".join(written)


def _plain_link(link: re.Match[str]) -> str:
    return rf"\url{{{_plain_address('url', link[1] or '')}}}"


def _plain_address(name: str, value: str) -> str:
    """Drop TeX's escapes from an address, and the address of the resolver from a DOI."""
    plain = _ESCAPED.sub(_unescaped, value)
    return _DOI_PREFIX.sub("", plain, count=1) if name == "doi" else plain


def _unescaped(match: re.Match[str]) -> str:
    name = match[match.lastindex] if match.lastindex else ""
    return _CHARACTERS.get(name, name)


def cited_entries(bibliography: str, cites: Callable[[str], bool]) -> str:
    """Keep the entries that a paper ``cites`` by key, and the parents in their ``crossref``."""
    before, *entries = entries_of(bibliography)
    keyed = [(head[1] if (head := _HEAD.match(entry)) else "", entry) for entry in entries]
    wanted = {key for key, _ in keyed if cites(key)}
    for key, entry in keyed:
        if key in wanted:
            wanted |= {field.value for field in fields_of(entry)[0] if field.name == "crossref"}
    return before + "".join(entry for key, entry in keyed if key in wanted)


def _examined(entry: str) -> tuple[str, list[Field], str]:
    """Return an entry's key, or its first letters without one, its fields, and a fault or ""."""
    head, (fields, end) = _HEAD.match(entry), fields_of(entry)
    if head is None:
        first = entry[:30].partition("\n")[0]
        return first, [], "expected @type{key, with a key of letters and digits"
    faults = ["expected name = {text} for each field, and a brace that closes it"]
    if _END.fullmatch(entry, end):
        counts = Counter(field.name for field in fields)
        faults = [f"found the field {name} twice" for name, count in counts.items() if count > 1]
        faults += filter(None, map(_fault_of, fields))
    return head[1], fields, faults[0] if faults else ""


def _fault_of(field: Field) -> str:
    """Describe the first fault in the value of a field, or return an empty text."""
    if field.name == "xdata":
        return "found xdata, which BibTeX does not read"
    if field.name == "language" and not re.fullmatch("[A-Za-z -]*", field.value):
        return f"language: found {field.value}; write the language's English name"
    if foreign := _FOREIGN.search(field.value):
        return f"{field.name}: found {foreign[0]}, where only accents and signs may be TeX"
    addresses = [("url", link[1] or "") for link in _LINKED.finditer(field.value)]
    if field.name in _ADDRESSES:
        addresses.append((field.name, field.value))
    for name, address in addresses:
        form, example = _ADDRESSES[name]
        plain = _plain_address(name, address)
        if not form.fullmatch(plain):
            return f"{field.name}: found {plain[:30]}, which is no address such as {example}"
    if field.name in _ADDRESSES or field.name in _UNPRINTED:
        return ""
    fault = _name_fault(field) if field.name in ("author", "editor") else ""
    return fault or _markup_fault(field.name, _LINKED.sub("", field.value))


def _name_fault(field: Field) -> str:
    """Describe the first name that BibTeX cannot split into its parts."""
    shown, plain = "", field.value
    while shown != plain:
        shown, plain = plain, _GROUP.sub("x", plain)
    for name in re.split(r"\sand\s", plain, flags=re.IGNORECASE):
        if name.count(",") > 2 or name.rstrip().endswith(",") or "$" in name or "\\," in name:
            shown = name.strip()[:60]
            return f"{field.name}: found the name {shown}; write it as Last, First, or in braces"
    return ""


def _markup_fault(name: str, value: str) -> str:
    """Describe the first character that TeX reads as markup, such as %, which starts a comment."""
    depth, formula = 0, None  # open braces, now and at the beginning of the formula
    for token in _TOKEN.finditer(value):
        sign = token[0]
        depth += (sign == "{") - (sign == "}")
        if token[1]:
            return f"{name}: found {sign.strip()}, to which no letter belongs"
        if sign in ("%", "&", "#"):
            return f"{name}: found {sign}, which TeX does not print; write \\{sign}"
        if formula is not None and (depth < formula or (sign == "$" and depth > formula)):
            break
        if sign == "$":
            formula = depth if formula is None else None
        elif _ANYWHERE.fullmatch(sign):
            continue
        elif sign not in _IN_FORMULAS and not _IN_TEXT.fullmatch(sign):
            return f"{name}: found {sign}, where only accents and signs may be TeX"
        elif (sign in _IN_FORMULAS) != (formula is not None):
            where = "in" if formula is not None else "outside"
            return f"{name}: found {sign} {where} a formula; a formula stands between $ and $"
    return "" if formula is None else f"{name}: found $ without another; write \\$ for a dollar"
