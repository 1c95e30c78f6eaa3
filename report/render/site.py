"""The pages over all studies: the list of papers, claims, published values, machines, records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from report.core.text.format import first_names, plain
from report.render.search import index_of_claims, index_of_paper
from report.render.shell import (
    OVERVIEWS,
    SCRIPTS,
    Settings,
    render_template,
    script_of,
    write_assets,
)

#: Characters of an abstract in a list.
_SHORT: Final = 320
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")
#: What a reference in the text of a sentence is called outside its paper.
_NAMES: Final = {"eq": "equation", "fig": "figure", "tbl": "table", "sec": "section"}
#: The markdown of a sentence and its plain words: references in brackets lead nowhere outside the
#: paper, values lose their link, code, emphasis and formulas their marks.
_MARKDOWN: Final = (
    (re.compile(r"\s*\(@[^)]*\)|\s*\[@[^\]]*\]"), ""),
    (re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(#[^)]*\)(?:\{[^}]*\})?"), r"\1"),
    (re.compile(r"[`*${}]"), ""),
)
#: Verdicts in the order in which they are counted.
_VERDICTS: Final = ("supported", "refuted", "undecided", "not comparable", "not measured")


@dataclass(frozen=True)
class Paper:
    """A study with what the pages over all of them say of it.

    ``entry`` is what lists say, as the step ``document`` writes it, ``values`` the content of
    ``values/<study>.json``, ``records`` that of ``records.json`` and ``machines`` a part of
    ``details.json``, ``html`` the page of the paper; ``pdf`` and ``reported`` say whether there are
    a PDF beside it and published values.
    """

    study: str
    entry: Mapping[str, Any]
    values: Mapping[str, Any] = field(default_factory=dict)
    records: Sequence[Mapping[str, Any]] = ()
    machines: Sequence[Mapping[str, Any]] = ()
    html: str = ""
    pdf: bool = False
    reported: bool = False

    @property
    def page(self) -> str:
        """Where its page lies on the site."""
        return f"{self.study}/index.html"

    @property
    def measured_on(self) -> str:
        """The first of the devices, and how many others there are."""
        return first_names(self.entry["devices"])

    @property
    def verdicts(self) -> list[tuple[str, int]]:
        """How many claims have which verdict."""
        counts = Counter(claim["verdict"] for claim in self.values.get("claims", {}).values())
        return [(verdict, counts[verdict]) for verdict in _VERDICTS if counts[verdict]]

    @property
    def claims(self) -> list[Mapping[str, Any]]:
        """The claims with their titles as ``sentence``."""
        claims: list[Mapping[str, Any]] = []
        for id, claim in self.values.get("claims", {}).items():
            words = claim.get("title") or claim["sentence"] or id.replace("-", " ")
            claims.append({**claim, "sentence": _plain_words(words)})
        return claims

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


def _plain_words(sentence: str) -> str:
    for markdown, words in _MARKDOWN:
        sentence = markdown.sub(words, sentence)
    named = re.sub(r"@(eq|fig|tbl|sec)-[\w-]+", lambda kind: f"the {_NAMES[kind[1]]}", sentence)
    return named[:1].upper() + named[1:]


def in_plain_words(title: str, abstract: str) -> dict[str, str]:
    """What lists say of a paper: its title and the first whole sentences of its abstract."""
    first, *others = _SENTENCE_END.split(abstract.strip())
    for sentence in others:
        if len(first) + len(sentence) >= _SHORT:
            break
        first = f"{first} {sentence}"
    return {"title": title, "abstract": first}


def machines_of(papers: Iterable[Paper]) -> list[dict[str, Any]]:
    """The machines of all studies by name, with the papers that measured on each, and when.

    What is said of a machine is what its newest record says, a ceiling the newest that is known.
    """
    seen: dict[str, list[tuple[Paper, Mapping[str, Any]]]] = {}
    for paper in papers:
        for machine in paper.machines:
            seen.setdefault(machine["key"], []).append((paper, machine))
    return sorted(map(_merged, seen.values()), key=lambda machine: str(machine["label"]))


def _merged(seen: Sequence[tuple[Paper, Mapping[str, Any]]]) -> dict[str, Any]:
    oldest_first = sorted((machine for _, machine in seen), key=lambda each: each["measured"])
    ceilings: dict[str, str] = {}
    for machine in oldest_first:
        ceilings |= {name: rate for name, rate in machine["ceilings"].items() if rate}
    newest = oldest_first[-1]
    return {
        **newest,
        "ceilings": {name: ceilings.get(name, "") for name in newest["ceilings"]},
        "studies": [(paper, machine["measured"]) for paper, machine in seen],
    }


def write_site(papers: Sequence[Paper], target: Path, settings: Settings) -> None:
    """Write the pages over all studies, and what all pages share."""
    target.mkdir(parents=True, exist_ok=True)
    listed = [{"study": paper.study, "title": paper.entry["title"]} for paper in papers]
    content = {"root": "", "scripts": SCRIPTS, "papers": papers, "machines": machines_of(papers)}
    texts = {
        **{p: render_template(f"{p}.j2", settings, here=p, **content) for p in OVERVIEWS},
        "papers.js": script_of("papers", listed),
        "search-index.js": script_of("index", list(_index(papers))),
        # Without this file GitHub Pages would look for templates of its own.
        ".nojekyll": "",
    }
    for name, text in texts.items():
        (target / name).write_text(text, "utf-8", newline="\n")
    write_assets(target)


def _index(papers: Iterable[Paper]) -> Iterator[Mapping[str, str]]:
    """All that can be searched: the papers with their parts, then their claims."""
    for paper in papers:
        title, abstract = paper.entry["title"], paper.entry["abstract"]
        yield from index_of_paper(title, abstract, paper.page, paper.html)
    for paper in papers:
        yield from index_of_claims(paper.study, paper.entry["title"], paper.claims)
