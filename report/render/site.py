"""Pages on all studies: the lists of papers, claims, published values, machines and records."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from report.core.text.format import first_names, plain
from report.render.shell import (
    PAGES,
    SCRIPTS,
    Settings,
    render_template,
    script_of,
    write_assets,
)

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
#: Most characters of an abstract in a list.
_SHORT: Final = 320
#: Words that a reader takes in a minute, and what separates them on a page.
_WORDS_A_MINUTE: Final = 200
_BETWEEN_WORDS = re.compile(r"(?:<[^>]*>|\s)+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")
#: Ratio of numbers from which a line is logarithmic, and the share of it left free at each end.
_WIDE, _MARGIN = 10, 0.1
#: Words that replace a reference outside its paper.
_NAMES: Final = {"eq": "equation", "fig": "figure", "tbl": "table", "sec": "section"}
#: Markdown of a sentence → its plain words.  References in brackets are dropped, since they lead
#: nowhere outside the paper; values lose their links; code, emphasis and formulas lose their marks.
_MARKDOWN: Final = (
    (re.compile(r"\s*\(@[^)]*\)|\s*\[@[^\]]*\]"), ""),
    (re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(#[^)]*\)(?:\{[^}]*\})?"), r"\1"),
    (re.compile(r"[`*${}]"), ""),
)
#: Verdicts in the order in which they are counted.
_VERDICTS: Final = ("supported", "refuted", "undecided", "not measured")


@dataclass(frozen=True)
class SitePaper:
    """A paper as the pages on all studies show it.

    ``entry`` is its entry in lists, written by the step ``document``; ``values`` is the content of
    ``values/<study>.json``, ``records`` of ``records.json``, and ``machines`` a part of
    ``details.json``.  ``html`` is the page of the paper.  ``pdf`` and ``reported`` are true if the
    paper has a PDF and published values.  ``atlas`` is the content of ``atlas.json``.
    """

    study: str
    entry: Mapping[str, Any]
    values: Mapping[str, Any] = field(default_factory=dict)
    records: Sequence[Mapping[str, Any]] = ()
    machines: Sequence[Mapping[str, Any]] = ()
    html: str = ""
    pdf: bool = False
    reported: bool = False
    atlas: Mapping[str, Any] = field(default_factory=dict)

    @property
    def page(self) -> str:
        """Address of the paper's page, relative to the site."""
        return f"{self.study}/index.html"

    @property
    def measured_on(self) -> str:
        """First devices, and the number of others."""
        return first_names(self.entry["devices"])

    @property
    def examples(self) -> Iterator[tuple[int, str, str]]:
        """Yield the numbers of the headline that come from one record: samples, address, text."""
        for number in self.values.get("headline", ()):
            value = self.values["values"].get(number["id"])
            if value and len(value["sources"]) == 1:
                yield value["n"] or 0, f"{self.page}#{number['anchor']}", number["printed"]

    @property
    def minutes(self) -> int:
        """Minutes that reading the page takes, without references and supplement."""
        body = self.html.partition("<main")[2].partition('id="references"')[0]
        return round(len(_BETWEEN_WORDS.split(body)) / _WORDS_A_MINUTE)

    @property
    def verdicts(self) -> list[tuple[str, int]]:
        """Number of claims per verdict."""
        counts = Counter(claim["verdict"] for claim in self.values.get("claims", {}).values())
        return [(verdict, counts[verdict]) for verdict in _VERDICTS if counts[verdict]]

    @property
    def claims(self) -> list[Mapping[str, Any]]:
        """Claims in the order of the paper, with title as ``sentence``, ``address`` and picture."""
        claims: list[dict[str, Any]] = []
        for id, claim in self.values.get("claims", {}).items():
            words = claim.get("title") or claim["sentence"] or id.replace("-", " ")
            places = [f"claim-{id}"]
            if claim["sentence"] or "summary" in self.values:
                places.append("tbl-claims")  # a row of a paper's or of a report's table of claims
            address = self.page
            for place in reversed(places):
                if f'id="{place}"' in self.html:
                    address = f"{self.page}#{place}"
            picture = interval_picture(claim.get("compared", ()))
            added = {"sentence": plain_words(words), "address": address, "picture": picture}
            claims.append({**claim, **added, "place": self.html.find(f'id="claim-{id}"')})
        # A claim that only the table of claims states has no place, and comes last.
        return sorted(claims, key=lambda claim: (claim["place"] < 0, claim["place"]))

    @property
    def audits(self) -> list[Mapping[str, Any]]:
        """Recomputed published values."""
        audits = self.values.get("audits", ())
        return [{**audit, "recomputed": _in_full(audit["recomputed"])} for audit in audits]

    @property
    def audited(self) -> list[tuple[str, int]]:
        """Number of published values per verdict."""
        return sorted(Counter(audit["verdict"] for audit in self.audits).items())


def _in_full(number: float) -> str:
    """Print whole numbers with all digits; rounded, they would seem to differ from the source's."""
    return plain(int(number) if number.is_integer() else number)


def interval_picture(compared: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Place the intervals of a claim, and the range in which it holds, on a line from 0 to 1.

    The line is logarithmic where positive numbers differ by more than a factor of ten.  None if no
    number is known, or if the bounds of the comparisons differ.
    """
    known = [part for part in compared if part["number"] is not None]
    bounds = {(part["above"], part["below"]) for part in known}
    if len(bounds) != 1:
        return None
    above, below = bounds.pop()
    ends = [bound for bound in (above, below) if bound is not None]
    for part in known:
        ends += [part["number"], *(part["interval"] or ())]
    low, high = min(ends), max(ends)
    logarithmic = low > 0 and high > _WIDE * low
    measure = math.log if logarithmic else float
    start, width = measure(low), measure(high) - measure(low) or 1.0

    def place(number: float) -> float:
        return round(_MARGIN + (1 - 2 * _MARGIN) * (measure(number) - start) / width, 4)

    lines = []
    for part in known:
        first, last = part["interval"] or (part["number"], part["number"])
        lines.append((place(first), place(part["number"]), place(last)))
    holds = (0.0 if above is None else place(above), 1.0 if below is None else place(below))
    return {"holds": holds, "lines": lines}


def plain_words(sentence: str) -> str:
    """Drop the markup of a sentence, and its references to parts of the paper."""
    for markdown, words in _MARKDOWN:
        sentence = markdown.sub(words, sentence)
    words = re.sub(r"@(eq|fig|tbl|sec)-[\w-]+", _reference_words, sentence)
    return words[:1].upper() + words[1:]


def first_sentence(markdown: str) -> str:
    """Return the first sentence of a caption in plain words."""
    return _SENTENCE_END.split(plain_words(markdown))[0]


def _reference_words(reference: re.Match[str]) -> str:
    return f"the {_NAMES[reference[1]]}"


def in_plain_words(title: str, abstract: str) -> dict[str, str]:
    """Shorten a paper's entry in lists to its title and the first sentences of its abstract."""
    first, *others = _SENTENCE_END.split(abstract.strip())
    for sentence in others:
        if len(first) + len(sentence) >= _SHORT:
            break
        first = f"{first} {sentence}"
    return {"title": title, "abstract": first}


def machines_of(papers: Iterable[SitePaper]) -> list[dict[str, Any]]:
    """List the machines of all studies by name, with the papers that used each, and when.

    Each is described by its newest record, and by the newest known rate of each ceiling.
    """
    seen: dict[str, list[tuple[SitePaper, Mapping[str, Any]]]] = {}
    for paper in papers:
        for machine in paper.machines:
            seen.setdefault(machine["key"], []).append((paper, machine))
    return sorted(map(_merged, seen.values()), key=itemgetter("label"))


def _merged(seen: Sequence[tuple[SitePaper, Mapping[str, Any]]]) -> dict[str, Any]:
    oldest_first = sorted((machine for _, machine in seen), key=itemgetter("measured"))
    ceilings: dict[str, str] = {}
    for machine in oldest_first:
        ceilings |= {name: rate for name, rate in machine["ceilings"].items() if rate}
    newest = oldest_first[-1]
    return {
        **newest,
        "ceilings": {name: ceilings.get(name, "") for name in newest["ceilings"]},
        "studies": [(paper, machine["measured"]) for paper, machine in seen],
    }


def write_site(papers: Sequence[SitePaper], target: Path, settings: Settings) -> None:
    """Write the pages on all studies, and the files that all pages share."""
    target.mkdir(parents=True, exist_ok=True)
    listed = [{"study": paper.study, "title": paper.entry["title"]} for paper in papers]
    content = {
        "root": "",
        "scripts": (*SCRIPTS, "numbers.js"),
        "papers": papers,
        "machines": machines_of(papers),
        "example": max(chain.from_iterable(paper.examples for paper in papers), default=None),
    }
    texts = {
        "papers.js": script_of("papers", listed),
        "search-index.js": script_of("index", list(_index(papers))),
        # Without this file GitHub Pages would look for templates of its own.
        ".nojekyll": "",
    }
    for page in PAGES:
        texts[page] = render_template(f"{page}.j2", settings, current_page=page, **content)
    for name, text in texts.items():
        (target / name).write_text(text, "utf-8", newline="\n")
    write_assets(target)


def _index(papers: Iterable[SitePaper]) -> Iterator[Mapping[str, str]]:
    """Index the papers with their sections, then their claims."""
    for paper in papers:
        title, abstract = paper.entry["title"], paper.entry["abstract"]
        yield from index_of_paper(title, abstract, paper.page, paper.html)
    for paper in papers:
        yield from index_of_claims(paper.entry["title"], paper.claims)


# ------------------------------------------------------------------------------ search


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
