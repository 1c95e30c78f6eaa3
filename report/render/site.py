"""Pages on all studies: lists of papers, claims, published values, machines and records."""

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

from report.core.text.format import first_names, plain_number
from report.render.shell import PAGES, SCRIPTS, Settings, render_template, script_of, write_assets

#: Elements whose text is not searched: tables, code, scripts and tables of contents.
_UNSEARCHED: Final = ("table", "pre", "script", "nav")
_HEADINGS: Final = ("h2", "h3", "h4")
#: Beginning of an id → kind of element in search results.
_KIND_BY_PREFIX: Final = {"fig-": "Figure", "tbl-": "Table"}
#: Links to the files of a figure or a table.
_FILE_LINKS: Final = re.compile(r'<p class="(?:figure-files|table-file)">.*?</p>')
#: A formula in MathML with its TeX source.
_FORMULA: Final = re.compile(r"<math\b.*?<annotation[^>]*>(.*?)</annotation>.*?</math>", re.DOTALL)
#: Commands for layout in TeX.
_LAYOUT_COMMANDS: Final = re.compile(
    r"\\(?:[dt]?frac|text\w*|math\w+|operatorname|nolimits|left|right|(?:begin|end)\{\w+\})"
    r"|[{}\\]|&amp;"
)
#: Commands for space in TeX.
_SPACE_COMMANDS: Final = re.compile(r"\\[^\w\s]")
#: Ids of claims, and of the table of claims.
_CLAIM_IDS: Final = re.compile(r'\bid="(claim-[^"]*|tbl-claims)"')
#: Largest number of characters of a section that are searched.
_SEARCHED_CHARACTERS: Final = 6000
#: Largest number of characters of an abstract in a list.
_LISTED_CHARACTERS: Final = 320
#: Reading speed.
_WORDS_A_MINUTE: Final = 200
_BETWEEN_WORDS = re.compile(r"(?:<[^>]*>|\s)+")
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")
#: Ratio of largest to smallest number above which a line is logarithmic.
_WIDE_RATIO: Final = 10
#: Share of a line that stays free at either end.
_MARGIN: Final = 0.1
#: Pattern of Markdown → plain words.  References in brackets are dropped, since their targets are
#: in the paper; values lose their links; code, emphasis and formulas lose their marks; other
#: references become words.
_MARKDOWN: Final = (
    (re.compile(r"\s*\(@[^)]*\)|\s*\[@[^\]]*\]"), ""),
    (re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(#[^)]*\)(?:\{[^}]*\})?"), r"\1"),
    (re.compile(r"[`*${}]"), ""),
    (re.compile(r"@eq-[\w-]+"), "the equation"),
    (re.compile(r"@fig-[\w-]+"), "the figure"),
    (re.compile(r"@tbl-[\w-]+"), "the table"),
    (re.compile(r"@sec-[\w-]+"), "the section"),
)
#: Verdicts in the order in which counts are listed.
_VERDICTS: Final = ("supported", "refuted", "undecided", "not measured")


@dataclass(frozen=True)
class SitePaper:
    """A paper as shown on the pages on all studies.

    ``entry``: entry in lists, written by the step ``document``.  ``values``: content of
    ``values/<study>.json``.  ``records``: content of ``records.json``.  ``machines``: part of
    ``details.json``.  ``content``: what ``content_of_page`` returns for the paper's page.  ``pdf``,
    ``reported``: true if the paper has a PDF, and published values.  ``atlas``: content of
    ``atlas.json``.
    """

    study: str
    entry: Mapping[str, Any]
    values: Mapping[str, Any] = field(default_factory=dict)
    records: Sequence[Mapping[str, Any]] = ()
    machines: Sequence[Mapping[str, Any]] = ()
    content: Mapping[str, Any] = field(default_factory=dict)
    pdf: bool = False
    reported: bool = False
    atlas: Mapping[str, Any] = field(default_factory=dict)

    @property
    def page(self) -> str:
        """Address of the paper's page, relative to the site."""
        return f"{self.study}/index.html"

    @property
    def measured_on(self) -> str:
        """First measured devices, and the number of other devices."""
        return first_names(self.entry["devices"])

    @property
    def examples(self) -> Iterator[tuple[int, str, str]]:
        """Main numbers that come from one record, as (number of samples, address, text)."""
        for number in self.values.get("headline", ()):
            value = self.values["values"].get(number["id"])
            if value and len(value["sources"]) == 1:
                yield value["n"] or 0, f"{self.page}#{number['anchor']}", number["printed"]

    @property
    def minutes(self) -> int:
        """Reading time of the page in minutes, without references and supplement."""
        words: int = self.content.get("words", 0)
        return round(words / _WORDS_A_MINUTE)

    @property
    def verdicts(self) -> list[tuple[str, int]]:
        """Number of claims per verdict."""
        counts = Counter(claim["verdict"] for claim in self.values.get("claims", {}).values())
        return [(verdict, counts[verdict]) for verdict in _VERDICTS if counts[verdict]]

    @property
    def claims(self) -> list[Mapping[str, Any]]:
        """Claims in the order of the paper, with title (as ``sentence``), address and picture."""
        claims: list[dict[str, Any]] = []
        anchors = self.content.get("anchors", [])
        for id, claim in self.values.get("claims", {}).items():
            words = claim.get("title") or claim["sentence"] or id.replace("-", " ")
            targets = [f"claim-{id}"]
            # Reports, which have a summary, print all claims in their table of claims.
            if claim["sentence"] or "summary" in self.values:
                targets.append("tbl-claims")
            present = [target for target in targets if target in anchors]
            claims.append({
                **claim,
                "sentence": plain_words(words),
                "address": f"{self.page}#{present[0]}" if present else self.page,
                "picture": interval_picture(claim.get("compared", ())),
                # Claims that are only in the table of claims come last.
                "position": anchors.index(f"claim-{id}") if f"claim-{id}" in anchors else math.inf,
            })  # fmt: skip
        return sorted(claims, key=itemgetter("position"))

    @property
    def audits(self) -> list[Mapping[str, Any]]:
        """Recomputed published values of the paper's source."""
        audits = self.values.get("audits", ())
        return [{**audit, "recomputed": _in_full(audit["recomputed"])} for audit in audits]

    @property
    def audit_counts(self) -> list[tuple[str, int]]:
        """Number of published values per verdict."""
        return sorted(Counter(audit["verdict"] for audit in self.audits).items())


def _in_full(number: float) -> str:
    """Print whole numbers with all digits; rounded, they would seem to differ from the source."""
    return plain_number(int(number) if number.is_integer() else number)


def interval_picture(compared: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Draw the intervals of a claim, and the range in which it holds, on a line from 0 to 1.

    ``holds`` are the ends of the range, and ``lines`` the low end, number and high end of each
    comparison.  The line is logarithmic if all numbers are positive and differ by more than a
    factor of ten.  Returns None if no number is known, if comparisons have different ranges, or if
    all positions are equal.
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
    if low == high:
        return None
    logarithmic = low > 0 and high > _WIDE_RATIO * low
    scaled = math.log if logarithmic else float
    start, width = scaled(low), scaled(high) - scaled(low)

    def position(number: float) -> float:
        return round(_MARGIN + (1 - 2 * _MARGIN) * (scaled(number) - start) / width, 4)

    lines = []
    for part in known:
        first, last = part["interval"] or (part["number"], part["number"])
        lines.append((position(first), position(part["number"]), position(last)))
    holds_from = 0.0 if above is None else position(above)
    holds_to = 1.0 if below is None else position(below)
    return {"holds": (holds_from, holds_to), "lines": lines}


def plain_words(sentence: str) -> str:
    """Return a sentence without markup, with words in place of references, and with apostrophes."""
    for markdown, words in _MARKDOWN:
        sentence = markdown.sub(words, sentence)
    return (sentence[:1].upper() + sentence[1:]).replace("'", "’")


def first_sentence(markdown: str) -> str:
    """Return the first sentence of a caption in plain words."""
    return _BETWEEN_SENTENCES.split(plain_words(markdown))[0]


def plain_entry(title: str, abstract: str, question: str) -> dict[str, str]:
    """Return title, question and first sentences of the abstract; only the question has markup."""
    beginning, *other_sentences = _BETWEEN_SENTENCES.split(abstract.strip())
    for sentence in other_sentences:
        if len(beginning) + len(sentence) >= _LISTED_CHARACTERS:
            break
        beginning = f"{beginning} {sentence}"
    return {"title": title, "abstract": beginning, "question": plain_words(question)}


def machines_of(papers: Iterable[SitePaper]) -> list[dict[str, Any]]:
    """List the machines of all studies by label, with papers and days of their measurements.

    The newest record of a machine describes the machine; ceilings show the newest known rates.
    The day of the first record tells machines with the same label apart.
    """
    by_id: dict[str, list[tuple[SitePaper, Mapping[str, Any]]]] = {}
    for paper in papers:
        for machine in paper.machines:
            by_id.setdefault(machine["id"], []).append((paper, machine))
    listed = sorted(map(_merge_machine, by_id.values()), key=_label_and_day)
    counts = Counter(machine["label"] for machine in listed)
    for machine in listed:
        if counts[machine["label"]] > 1:
            machine["label"] += f" (first run of {machine['first']})"
    return listed


def _label_and_day(machine: Mapping[str, Any]) -> tuple[list[int | str], str]:
    """Return a key that sorts by the label, in which 2 comes before 10, then by the first day."""
    parts = re.split(r"(\d+)", machine["label"])  # texts and numbers in turns
    return [int(part) if part.isdecimal() else part for part in parts], machine["first"]


def _merge_machine(pairs: Sequence[tuple[SitePaper, Mapping[str, Any]]]) -> dict[str, Any]:
    """Merge the entries of one machine in several papers; ``first`` is the day of the oldest."""
    oldest_first = sorted(pairs, key=lambda pair: pair[1]["measured"])
    ceilings: dict[str, str] = {}
    for _, machine in oldest_first:
        ceilings |= {name: rate for name, rate in machine["ceilings"].items() if rate}
    _, newest = oldest_first[-1]
    return {
        **newest,
        "first": oldest_first[0][1]["measured"],
        "ceilings": {name: ceilings.get(name, "") for name in newest["ceilings"]},
        "studies": {paper.study: machine["measured"] for paper, machine in oldest_first},
    }


def write_site(papers: Sequence[SitePaper], target: Path, settings: Settings) -> None:
    """Write the pages on all studies, and the files that all pages share, into ``target``."""
    target.mkdir(parents=True, exist_ok=True)
    listed = [{"study": paper.study, "title": paper.entry["title"]} for paper in papers]
    examples = chain.from_iterable(paper.examples for paper in papers)
    content = {
        "root": "",
        "scripts": (*SCRIPTS, "numbers.js"),
        "papers": papers,
        "reports": bool(papers) and all("summary" in paper.values for paper in papers),
        "machines": machines_of(papers),
        "example": max(examples, default=None),  # the number with the most samples
    }
    texts = {
        "papers.js": script_of("papers", listed),
        "search-index.js": script_of("index", list(_index(papers))),
        # Without this file, GitHub Pages would process the site as templates.
        ".nojekyll": "",
    }
    for page in PAGES:
        texts[page] = render_template(f"{page}.j2", settings, current_page=page, **content)
    for name, text in texts.items():
        (target / name).write_text(text, "utf-8", newline="\n")
    write_assets(target)


def _index(papers: Iterable[SitePaper]) -> Iterator[Mapping[str, str]]:
    """Yield search entries for all papers with their sections, then for all claims."""
    for paper in papers:
        title, abstract = paper.entry["title"], paper.entry["abstract"]
        yield _entry("Paper", title, title, paper.page, abstract)
        for kind, id, name, text in paper.content.get("sections", ()):
            yield _entry(kind, title, name, f"{paper.page}#{id}", text)
    for paper in papers:
        for claim in paper.claims:
            title = paper.entry["title"]
            yield _entry("Claim", title, claim["sentence"], claim["address"], claim["verdict"])


@dataclass
class _PageSection:
    """A section, a figure or a table of a page."""

    id: str
    kind: str
    title: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


class _SectionParser(HTMLParser):
    """Parser that collects the words of a page by section, figure or table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.sections: list[_PageSection] = []
        #: Elements around the current position, with the section that each begins.
        self.open: list[tuple[str, _PageSection | None]] = []
        self.feed(_FORMULA.sub(_formula_as_words, _FILE_LINKS.sub("", page)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        id = dict(attrs).get("id") or ""
        kind = {"section": "Section", "figure": _KIND_BY_PREFIX.get(id[:4])}.get(tag)
        section = _PageSection(id, kind) if id and kind else None
        if section:
            self.sections.append(section)
        if tag in (*_UNSEARCHED, *_HEADINGS, "section", "figure"):
            self.open.append((tag, section))

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1][0] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        innermost = None
        for tag, section in self.open:
            if tag in _UNSEARCHED:
                return
            innermost = section or innermost
        if innermost:
            in_heading = self.open[-1][0] in _HEADINGS
            (innermost.title if in_heading else innermost.text).append(data)


def _formula_as_words(formula: re.Match[str]) -> str:
    """Write a formula as a user would type it, such as ``I_ridge = P/beta``."""
    return _LAYOUT_COMMANDS.sub("", _SPACE_COMMANDS.sub(" ", formula[1].replace("}{", "/")))


def content_of_page(page: str) -> dict[str, Any]:
    """Collect what other pages need of the page of a paper, since parsing a page takes long.

    ``words``: their number, without references and supplement.  ``anchors``: the ids of claims and
    of their table, in order.  ``sections``: kind, id, title and text of each section, figure and
    table, for the search.
    """
    body = page.partition("<main")[2].partition('id="references"')[0]
    sections: list[tuple[str, str, str, str]] = []
    for section in _SectionParser(page).sections:
        text = _on_one_line(section.text)
        # Of a caption its label, such as «Table 1.», and its first sentence.
        name = _on_one_line(section.title) or " ".join(_BETWEEN_SENTENCES.split(text)[:2])
        if text and section.id != "cite":  # how to cite the paper
            sections.append((section.kind, section.id, name, text[:_SEARCHED_CHARACTERS]))
    return {
        "words": len(_BETWEEN_WORDS.split(body)),
        "anchors": list(dict.fromkeys(_CLAIM_IDS.findall(page))),
        "sections": sections,
    }


def _entry(kind: str, paper: str, title: str, address: str, text: str) -> Mapping[str, str]:
    return {"kind": kind, "paper": paper, "title": title, "address": address, "text": text}


def _on_one_line(pieces: Iterable[str]) -> str:
    return " ".join("".join(pieces).split())
