"""Index for the site's search: sections, figures and tables of the papers, and their claims."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final

#: Elements that are not searched: cells of tables, code, scripts and contents.
_SILENT: Final = ("table", "pre", "script", "nav")
_HEADINGS: Final = ("h2", "h3", "h4")
_KINDS: Final = {"fig-": "Figure", "tbl-": "Table"}
#: A formula in MathML with its TeX source, and the layout commands in the source.
_FORMULA: Final = re.compile(r"<math\b.*?<annotation[^>]*>(.*?)</annotation>.*?</math>", re.DOTALL)
_LAYOUT: Final = re.compile(
    r"\\(?:[dt]?frac|text\w*|math\w+|operatorname|nolimits|left|right|(?:begin|end)\{\w+\})"
    r"|[{}\\]|&amp;"
)
_SPACE: Final = re.compile(r"\\[^\w\s]")
#: Number of characters of a section that are searched.
_MOST: Final = 6000


@dataclass
class _PageSection:
    """A section, a figure or a table of a page."""

    id: str
    kind: str
    title: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    """Collects the words of a page by section, figure or table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.sections: list[_PageSection] = []
        self.open: list[tuple[str, _PageSection | None]] = []
        self.feed(_FORMULA.sub(_as_words, page))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        id = dict(attrs).get("id") or ""
        section = None
        if tag == "section" and id:
            section = _PageSection(id, "Section")
        elif tag == "figure" and id[:4] in _KINDS:
            section = _PageSection(id, _KINDS[id[:4]])
        if section:
            self.sections.append(section)
        if tag in (*_SILENT, *_HEADINGS, "section", "figure"):
            self.open.append((tag, section))

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1][0] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        innermost = None
        for tag, section in self.open:
            if tag in _SILENT:
                return
            innermost = section or innermost
        if innermost:
            in_heading = self.open[-1][0] in _HEADINGS
            (innermost.title if in_heading else innermost.text).append(data)


def _as_words(formula: re.Match[str]) -> str:
    """Write a formula about as one would type it: ``I_ridge = P/beta``."""
    return _LAYOUT.sub("", _SPACE.sub(" ", formula[1].replace("}{", "/")))


def index_of_paper(
    title: str, abstract: str, address: str, page: str
) -> Iterator[Mapping[str, str]]:
    """Index the paper at ``address``, and the sections, figures and tables of its ``page``."""
    yield _entry("Paper", title, title, address, abstract)
    for section in _Reader(page).sections:
        text = _words(section.text)
        name = _words(section.title) or text.partition(". ")[0]
        if text and section.id != "cite":
            yield _entry(section.kind, title, name, f"{address}#{section.id}", text)


def index_of_claims(title: str, claims: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, str]]:
    """Index the claims of a paper, with their verdicts."""
    for claim in claims:
        yield _entry("Claim", title, claim["sentence"], claim["address"], claim["verdict"])


def _entry(kind: str, paper: str, title: str, address: str, text: str) -> Mapping[str, str]:
    return {"kind": kind, "paper": paper, "title": title, "address": address, "text": text[:_MOST]}


def _words(pieces: Iterable[str]) -> str:
    return " ".join("".join(pieces).split())
