"""The index of the search: sections, figures and tables of the papers, and their claims."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final

#: What has no words of its own: numbers of tables, the list of numbers and their files.
_SILENT: Final = ("table", "pre", "script", "nav")
_HEADINGS: Final = ("h2", "h3", "h4")
_KINDS: Final = {"fig-": "Figure", "tbl-": "Table"}
#: A formula of MathML with its source, and what in that is layout.
_FORMULA: Final = re.compile(r"<math\b.*?<annotation[^>]*>(.*?)</annotation>.*?</math>", re.DOTALL)
_LAYOUT: Final = re.compile(
    r"\\(?:[dt]?frac|text\w*|math\w+|operatorname|nolimits|left|right|(?:begin|end)\{\w+\})"
    r"|[{}\\]|&amp;"
)
_SPACE: Final = re.compile(r"\\[^\w\s]")
#: Characters of a section that are searched.
_MOST: Final = 6000


@dataclass
class _Part:
    """A section, a figure or a table of a page."""

    id: str
    kind: str
    title: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    """Collects the words of a page by the section, figure or table in which they stand."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.parts: list[_Part] = []
        self.open: list[tuple[str, _Part | None]] = []
        self.feed(_FORMULA.sub(_as_words, page))

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


def _as_words(formula: re.Match[str]) -> str:
    """A formula in one line, about as one would type it: ``I_ridge = P/beta``."""
    return _LAYOUT.sub("", _SPACE.sub(" ", formula[1].replace("}{", "/")))


def index_of_paper(
    title: str, abstract: str, address: str, page: str
) -> Iterator[Mapping[str, str]]:
    """The paper at ``address``, and the sections, figures and tables of its ``page``."""
    yield _entry("Paper", title, title, address, abstract)
    for part in _Reader(page).parts:
        text = _words(part.text)
        name = _words(part.title) or text.partition(". ")[0]
        if text and part.id != "cite":
            yield _entry(part.kind, title, name, f"{address}#{part.id}", text)


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
