"""The pages over all studies: the list of papers, claims, published values, machines, records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from report.render.search import index_of_claims, index_of_paper
from report.render.settings import Settings
from report.render.shell import OVERVIEWS, SCRIPTS, render_template, script_of, write_assets
from report.text.format import first_names, plain

#: Characters of an abstract in a list.
_SHORT: Final = 320
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")
#: A reference in the markdown of a sentence, which leads nowhere outside its paper.
_REFERENCE: Final = re.compile(r"\s*\(@[^)]*\)|\s*\[@[^\]]*\]")
#: Verdicts in the order in which they are counted.
_VERDICTS: Final = ("supported", "refuted", "undecided", "not comparable", "not measured")


class Entry(msgspec.Struct, frozen=True):
    """One study in the list; ``page`` and ``pdf`` are relative to the list.

    ``devices`` is empty and ``measured`` None where a study has no measurement of its own;
    ``imported`` are lines on what others measured.
    ``headline`` are the numbers that the paper names first: what, number, interval.  ``figure`` is
    (file beside the page, alternative text, id) of its key figure.
    """

    study: str
    title: str
    abstract: str
    page: str
    pdf: str | None = None
    devices: tuple[str, ...] = ()
    measured: str | None = None
    imported: tuple[str, ...] = ()
    question: str = ""
    headline: tuple[Mapping[str, str], ...] = ()
    figure: tuple[str, str, str] | None = None

    @property
    def measured_on(self) -> str:
        """The first of the devices, and how many others there are."""
        return first_names(self.devices)

    @classmethod
    def of(
        cls, plain: Mapping[str, Any], *, study: str, page: str, pdf: str | None = None
    ) -> Entry:
        """The entry of a paper from its title, abstract, devices and day of measuring."""
        return msgspec.convert({**plain, "study": study, "page": page, "pdf": pdf}, cls)


@dataclass(frozen=True)
class Paper:
    """A study with what the pages over all of them say of it.

    ``values`` is the content of ``values/<study>.json``, ``records`` that of ``records.json`` and
    ``machines`` a part of ``details.json``, ``html`` the page of the paper; each may be empty.
    """

    entry: Entry
    values: Mapping[str, Any] = field(default_factory=dict)
    records: Sequence[Mapping[str, Any]] = ()
    machines: Sequence[Mapping[str, Any]] = ()
    reported: str = ""
    html: str = ""

    @property
    def verdicts(self) -> list[tuple[str, int]]:
        """How many claims have which verdict."""
        counts = Counter(claim["verdict"] for claim in self.values.get("claims", {}).values())
        return [(verdict, counts[verdict]) for verdict in _VERDICTS if counts[verdict]]

    @property
    def claims(self) -> list[Mapping[str, Any]]:
        """The claims in the words of the paper; one that it does not state by its id."""
        claims = self.values.get("claims", {}).items()
        return [
            {**claim, "sentence": _bare(claim["sentence"]) or id.replace("-", " ").capitalize()}
            for id, claim in claims
        ]

    @property
    def audits(self) -> list[Mapping[str, Any]]:
        """The published values that were computed again."""
        audits = self.values.get("audits", ())
        return [{**audit, "recomputed": _in_full(audit["recomputed"])} for audit in audits]

    @property
    def audited(self) -> list[tuple[str, int]]:
        """How many published values have which verdict."""
        return sorted(Counter(audit["verdict"] for audit in self.audits).items())


def _in_full(number: float) -> str:
    """A whole number with all its digits: a rounded one would seem to differ from the printed."""
    return plain(int(number) if number.is_integer() else number)


def _bare(sentence: str) -> str:
    return _REFERENCE.sub("", sentence).replace("`", "")


def in_plain_words(title: str, abstract: str) -> dict[str, str]:
    """What lists say of a paper: its title and the first whole sentences of its abstract."""
    first, *others = _SENTENCE_END.split(abstract.strip())
    for sentence in others:
        if len(first) + len(sentence) >= _SHORT:
            break
        first = f"{first} {sentence}"
    return {"title": title, "abstract": first}


@dataclass(frozen=True)
class Machine:
    """A machine with what each study measured on it: study → (page, day)."""

    facts: Mapping[str, Any]
    ceilings: Mapping[str, str]
    studies: tuple[tuple[Entry, str], ...]


def machines_of(papers: Iterable[Paper]) -> list[Machine]:
    """The machines of all studies by name; facts and ceilings are those of the newest record."""
    found: dict[str, list[tuple[Entry, Mapping[str, Any]]]] = {}
    for paper in papers:
        for machine in paper.machines:
            found.setdefault(machine["key"], []).append((paper.entry, machine))
    return sorted(map(_merged, found.values()), key=lambda machine: machine.facts["label"])


def _merged(seen: Sequence[tuple[Entry, Mapping[str, Any]]]) -> Machine:
    newest_first = [facts for _, facts in sorted(seen, key=lambda s: s[1]["measured"])][::-1]
    names = newest_first[0]["ceilings"]
    ceilings = {
        name: next((f["ceilings"][name] for f in newest_first if f["ceilings"][name]), "")
        for name in names
    }
    studies = tuple((entry, facts["measured"]) for entry, facts in seen)
    return Machine(newest_first[0], ceilings, studies)


#: The pages of single records.
RECORD_PAGES: Final = "records"


def record_pages(papers: Iterable[Paper], settings: Settings) -> Iterator[tuple[str, str]]:
    """The page of each record, used or not: its place on the site, and its HTML."""
    for paper in papers:
        for record in paper.records:
            text = render_template(
                "record.html.j2",
                settings=settings,
                root="../",
                here="",
                scripts=SCRIPTS,
                entry=paper.entry,
                record=record,
            )
            yield f"{RECORD_PAGES}/{Path(record['file']).stem}.html", text


def render_page(page: str, papers: Sequence[Paper], settings: Settings) -> str:
    """The HTML of one of the pages over all studies."""
    return render_template(
        f"{page.removesuffix('.html')}.html.j2",
        settings=settings,
        root="",
        here=page,
        scripts=SCRIPTS,
        papers=papers,
        machines=machines_of(papers),
    )


def write_site(papers: Sequence[Paper], target: Path, settings: Settings) -> tuple[str, ...]:
    """Write the pages over all studies and what all pages share; returns the files' names."""
    target.mkdir(parents=True, exist_ok=True)
    (target / RECORD_PAGES).mkdir(exist_ok=True)
    pages = {page: render_page(page, papers, settings) for page in OVERVIEWS}
    pages |= dict(record_pages(papers, settings))
    for page, text in pages.items():
        (target / page).write_text(text, "utf-8", newline="\n")
    written = {"papers": _listed(papers), "index": list(_index(papers))}
    files = {"papers": "papers.js", "index": "search-index.js"}
    for name, content in written.items():
        script = script_of(name, content)
        (target / files[name]).write_text(script, "utf-8", newline="\n")
    # Without this file GitHub Pages would look for templates of its own.
    (target / ".nojekyll").write_bytes(b"")
    return (*pages, *files.values(), ".nojekyll", *write_assets(target))


def _listed(papers: Iterable[Paper]) -> list[dict[str, str]]:
    return [{"study": paper.entry.study, "title": paper.entry.title} for paper in papers]


def _index(papers: Iterable[Paper]) -> Iterator[Mapping[str, str]]:
    """All that can be searched: the papers with their parts, then their claims."""
    for paper in papers:
        entry = paper.entry
        yield from index_of_paper(entry.title, entry.abstract, entry.page, paper.html)
    for paper in papers:
        yield from index_of_claims(paper.entry.study, paper.entry.title, paper.claims)
