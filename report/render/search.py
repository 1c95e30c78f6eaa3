"""The index of the search: sections, figures and tables of the papers, and their claims."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final
from xml.etree import ElementTree

#: What has no words of its own: numbers of tables, the list of numbers and their files.
_SILENT: Final = ("table", "pre", "script", "nav")
_HEADINGS: Final = ("h2", "h3", "h4")
_KINDS: Final = {"fig-": "Figure", "tbl-": "Table"}
_FORMULA: Final = re.compile(r"<math\b.*?</math>", re.DOTALL)
#: What joins the parts of an element of MathML: the base with what stands below and above it.
_JOINTS: Final = {
    "mfrac": "/",
    "msub": "_",
    "msup": "^",
    "msubsup": "_^",
    "munder": "_",
    "mover": "^",
    "munderover": "_^",
}
#: Spaces within brackets and before commas, which joining the parts of a formula leaves.
_LOOSE: Final = re.compile(r"(?<=[(\[{|]) +| +(?=[)\]}|,.;])")
#: Characters of a section that are searched.
_MOST: Final = 6000


@dataclass
class _Part:
    """A section, a figure or a table of a page."""

    id: str
    kind: str
    title: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


@dataclass
class _Reader(HTMLParser):
    """Collects the words of a page by the section, figure or table in which they stand."""

    parts: list[_Part] = field(default_factory=list)
    open: list[tuple[str, _Part | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        id = dict(attrs).get("id") or ""
        part = None
        if tag == "section" and id:
            part = _Part(id, "Section")
        elif tag == "figure" and id[:4] in _KINDS:
            part = _Part(id, _KINDS[id[:4]])
        if part:
            self.parts.append(part)
        if tag in (*_SILENT, *_HEADINGS, "section", "figure"):
            self.open.append((tag, part))

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1][0] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self.open]
        here = next((part for _, part in reversed(self.open) if part), None)
        if here is None or any(tag in _SILENT for tag in tags):
            return
        (here.title if tags[-1] in _HEADINGS else here.text).append(data)


def index_of_paper(
    title: str, abstract: str, pages: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    """The paper, and the sections, figures and tables of its ``pages``: place → HTML."""
    for number, (address, page) in enumerate(pages.items()):
        if number == 0:
            yield _entry("Paper", title, title, address, abstract)
        reader = _Reader()
        reader.feed(_FORMULA.sub(lambda math: html.escape(formula_text(math[0])), page))
        for part in reader.parts:
            text = _words(part.text)
            name = _words(part.title) or text.partition(". ")[0]
            if text and part.id != "cite":
                yield _entry(part.kind, title, name, f"{address}#{part.id}", text)


def formula_text(math: str) -> str:
    """A formula of MathML in one line, as one would type it: ``I^* = P/W``.

    One that is no XML, which a page may hold as raw HTML, has no text.
    """
    try:
        return _LOOSE.sub("", _words([_line(ElementTree.fromstring(math))]))
    except ElementTree.ParseError:
        return ""


def _line(element: ElementTree.Element) -> str:
    tag = element.tag.rpartition("}")[2]
    if tag == "annotation":
        return ""
    parts = [_line(child) for child in element]
    if tag in _JOINTS:
        first, *others = map(_grouped, parts)
        return first + "".join(map("".join, zip(_JOINTS[tag], others, strict=True)))
    if tag == "msqrt":
        return "√" + _grouped(" ".join(parts))
    # Letters that stand upright side by side are a word, such as the name of a function.
    word = all(child.get("mathvariant") == "normal" for child in element)
    return ("" if word else " ").join(((element.text or "").strip("\u2061"), *parts))


def _grouped(part: str) -> str:
    """A part of a formula in brackets where it is more than one symbol."""
    part = _words([part])
    return f"({part})" if " " in part else part


def index_of_claims(
    study: str, title: str, claims: Iterable[Mapping[str, Any]]
) -> Iterator[Mapping[str, str]]:
    """Each sentence that a paper claims, with its verdict."""
    for claim in claims:
        yield _entry("Claim", title, claim["sentence"], f"claims.html#{study}", claim["verdict"])


def _entry(kind: str, paper: str, title: str, address: str, text: str) -> Mapping[str, str]:
    return {"kind": kind, "paper": paper, "title": title, "address": address, "text": text[:_MOST]}


def _words(pieces: Iterable[str]) -> str:
    return " ".join("".join(pieces).split())
