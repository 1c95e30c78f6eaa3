"""The folder of one paper: its ``.qmd``, figures, tables and bibliography."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from report.errors import RenderError
from report.records.strict_yaml import YamlError, parse_yaml
from report.render.problems import name_of, place_of_line
from report.render.styles import DEFAULT_STYLE, ONE_COLUMN, STYLES

_BIBLIOGRAPHY: Final = "references.bib"
#: Lists of figures and tables, which a style of two columns has not.
_LISTS: Final = ("lof", "lot")
_SWITCHES: Final = ("toc", *_LISTS)
#: Levels of headings that contents may name, and how many they do where ``toc-depth`` is not given.
_DEEPEST: Final = 3
_PAGE_DEPTH: Final = 2
_PRINT_DEPTH: Final = 3

#: What a front matter may say, and what it may say of an author.
_KEYS: Final = (
    "title", "subtitle", "author", "abstract", "abstract-title", "keywords", "lang", "bibliography",
    "number-sections", "print-style", "question", "key-figure", "headline", "toc-depth", *_SWITCHES,
)  # fmt: skip
_ORCID: Final = re.compile(r"\d{4}-\d{4}-\d{4}-\d{3}[\dX]")
_OF_AN_AUTHOR: Final = ("name", "affiliation", "orcid")

_FRONT_MATTER = re.compile(r"\A\ufeff?---\n(.*?)\n(?:---|\.\.\.)\n", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """A paper that can be rendered: ``folder / f"{study}.qmd"`` and what it needs beside it."""

    folder: Path
    study: str
    style: str
    front: Mapping[str, Any]

    @property
    def document(self) -> Path:
        """The Quarto markdown document."""
        return self.folder / f"{self.study}.qmd"

    def contents_in(self, *, page: bool) -> bool:
        """Whether the paper has contents, on the page or in print: ``toc`` of its front matter.

        Left to itself a page has them, and in print a report, which has a title page, has too.
        """
        return bool(self.front.get("toc", page or self.style == "report"))

    def contents_depth(self, *, page: bool) -> int:
        """How many levels of headings the contents name, on the page or in print."""
        return int(self.front.get("toc-depth", _PAGE_DEPTH if page else _PRINT_DEPTH))

    @property
    def one_column(self) -> bool:
        """Whether the style has one column of text as wide as the page."""
        return self.style in ONE_COLUMN

    def print_variables(self) -> dict[str, object]:
        """What the shells of the one-column styles ask for; nothing for another style."""
        if not self.one_column:
            return {}
        return {
            "one-column": True,
            "contents": self.contents_in(page=False),
            "contents-depth": str(self.contents_depth(page=False)),
            "figure-list": bool(self.front.get("lof")),
            "table-list": bool(self.front.get("lot")),
        }


def read_source(folder: Path, study: str) -> Source:
    """Read the front matter of a paper.

    Raises ``RenderError`` if the document is missing or its front matter does not say what the
    styles need.
    """
    meta = front_matter(folder / f"{study}.qmd")
    return Source(folder, study, style_of(meta), meta)


def style_of(meta: Mapping[str, Any]) -> Any:
    """What a front matter asks for as ``print-style``."""
    return meta.get("print-style", DEFAULT_STYLE)


def in_style(document: str, style: str) -> str:
    """The text of a ``.qmd`` with another ``print-style``, without lists that the style lacks."""
    head = _FRONT_MATTER.match(document)
    if head is None:
        return document
    dropped = {"print-style", *(() if style in ONE_COLUMN else _LISTS)}
    kept = [line for line in head[1].split("\n") if line.partition(":")[0] not in dropped]
    front = "\n".join((*kept, f"print-style: {style}"))
    return document[: head.start(1)] + front + document[head.end(1) :]


def _check_contents(name: str, meta: Mapping[str, Any], style: str) -> None:
    """Refuse what Quarto's keys of contents and lists cannot hold, or what the style cannot do."""
    for key in _SWITCHES:
        if not isinstance(meta.get(key, False), bool):
            raise RenderError(f"{name}: {key}: found {meta[key]!r}; write true or false.")
    depth = meta.get("toc-depth", _PRINT_DEPTH)
    if isinstance(depth, bool | float) or depth not in range(1, _DEEPEST + 1):
        raise RenderError(
            f"{name}: toc-depth: found {depth!r}; write a number from 1 to {_DEEPEST}."
        )
    for key in _LISTS:
        if meta.get(key) and style not in ONE_COLUMN:
            raise RenderError(
                f"{name}: {key}: the style {style} has no such list; leave it out or "
                f"use {' or '.join(ONE_COLUMN)}."
            )


def front_matter(document: Path) -> dict[str, Any]:
    """The YAML block at the head of a ``.qmd``.

    Raises ``RenderError`` if it is none, or lacks what every paper needs.
    """
    try:
        text = document.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RenderError(f"{name_of(document)}: cannot be read ({error}).") from error
    match = _FRONT_MATTER.match(text)
    if match is None:
        raise RenderError(
            f"{name_of(document)}: has no front matter; begin it with a block between ---."
        )
    try:
        meta = parse_yaml(match[1]).content
    except YamlError as error:
        place = f"{place_of_line(document, error.line + 1)}: the front matter"
        raise RenderError(f"{place}: not valid YAML: {error.what}; mend the template.") from error
    if not isinstance(meta, dict):
        raise RenderError(
            f"{name_of(document)}: the front matter is not a mapping; write 'title: ...'."
        )
    style = style_of(meta)
    if style not in STYLES:
        raise RenderError(
            f"{name_of(document)}: print-style: found {style!r}; use one of {', '.join(STYLES)}."
        )
    _check_keys(name_of(document), "", meta, _KEYS)
    _check_texts(name_of(document), meta)
    _check_contents(name_of(document), meta, style)
    return meta


def _check_texts(name: str, meta: Mapping[str, Any]) -> None:
    """Refuse a front matter without what every paper needs, and values that are no text."""
    for key in ("title", "author", "bibliography"):
        if not meta.get(key):
            raise RenderError(f"{name}: {key}: missing in the front matter; add it.")
    authors, keywords = meta["author"], meta.get("keywords", [])
    if not (isinstance(authors, list) and all(map(_is_named, authors))):
        raise RenderError(
            f"{name}: author: each author is a mapping with a name; write '- name: ...'."
        )
    _check_authors(name, authors)
    if meta["bibliography"] != _BIBLIOGRAPHY:
        raise RenderError(
            f"{name}: bibliography: found {meta['bibliography']!r}; write {_BIBLIOGRAPHY}."
        )
    if not (isinstance(keywords, list) and all(isinstance(word, str) for word in keywords)):
        raise RenderError(f"{name}: keywords: found {keywords!r}; write a list of words.")
    for key in ("title", "subtitle", "abstract", "abstract-title", "lang"):
        if not isinstance(meta.get(key, ""), str):
            raise RenderError(f"{name}: {key}: found {meta[key]!r}; put it in quotes.")


def _check_keys(name: str, place: str, found: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse a key that no format would print."""
    for key in found:
        if key not in known:
            near = get_close_matches(str(key), known, n=1)
            meant = f"write {near[0]}" if near else f"use one of {', '.join(sorted(known))}"
            raise RenderError(f"{name}: {place}{key}: unknown in a front matter; {meant}.")


def _check_authors(name: str, authors: Iterable[Mapping[str, Any]]) -> None:
    for author in authors:
        _check_keys(name, "author.", author, _OF_AN_AUTHOR)
        for key in author:
            if not isinstance(author[key], str):
                raise RenderError(f"{name}: author.{key}: found {author[key]!r}; put it in quotes.")
        if not is_orcid(author.get("orcid")):
            raise RenderError(
                f"{name}: author.orcid: found {author['orcid']!r}, which is no ORCID iD; write it "
                "as 0000-0002-1825-0097."
            )


def is_orcid(text: str | None) -> bool:
    """Whether an ORCID iD has its form and its check digit (ISO 7064, MOD 11-2); so has none."""
    if text is None:
        return True
    if not _ORCID.fullmatch(text):
        return False
    plain, total = text.replace("-", ""), 0
    for digit in plain[:-1]:
        total = 2 * (total + int(digit))
    return plain[-1] == "0123456789X"[(12 - total % 11) % 11]


def _is_named(author: object) -> bool:
    return isinstance(author, dict) and isinstance(author.get("name"), str) and author["name"] != ""
