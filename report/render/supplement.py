"""The supplement of a paper as a page of its own, cut from the one page that pandoc makes.

So both are numbered as one document; a link from one to the other names the page that it leads to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from report.render.shell import script_of

#: The page of the supplement, and the script with what links to the other page show in place.
SUPPLEMENT: Final = "supplement.html"
ELSEWHERE: Final = "elsewhere.js"

_PAPER: Final = "index.html"
_OPENING: Final = '<section id="sec-supplement"'
_TAG = re.compile(r"<(/?)(section|figure|div)\b[^>]*>")
#: A section after the supplement, such as the list of where numbers come from, belongs to it.
_FOLLOWING = re.compile(r'\s*(<section\b(?! id="references"))')
_ID = re.compile(r'\sid="([^"]+)"')
_LINK = re.compile(r'href="#([^"]+)"')
_SHOWN = re.compile(r'<(?:figure|div)\b[^>]*\sid="((?:tbl|fig|eq|ref)-[^"]+)"')
#: What not every page has, as the template marks it: the paper, one that has a supplement beside
#: it, or the supplement.
_ONLY = re.compile(r"<!--only (paper|split|supplement)-->\n?(.*?)<!--/only-->\n?", re.DOTALL)


def whole(page: str) -> str:
    """The page with its supplement in it."""
    return _of(page, "paper")


def split(page: str) -> dict[str, str]:
    """The files of a paper's page: the paper, its supplement, and what each shows of the other.

    A paper without a section ``sec-supplement`` stays in one page.
    """
    start = page.find(_OPENING)
    if start < 0:
        return {_PAPER: whole(page)}
    end = _end(page, start)
    while (after := _FOLLOWING.match(page, end)) is not None:
        end = _end(page, after.start(1))
    section = page[start:end]
    head, _, rest = page.partition("<article>")
    article, _, tail = rest.partition("</article>")
    paper = f"{head}<article>{article.replace(section, '')}</article>{tail}"
    supplement = f"{head}<article>{_without_title(article, section)}</article>{tail}"
    pages = {_PAPER: _of(paper, "paper", "split"), SUPPLEMENT: _of(supplement, "supplement")}
    linked = {name: _linked(text, pages) for name, text in pages.items()}
    return {**linked, ELSEWHERE: script_of("elsewhere", _previews(linked))}


def _of(page: str, *which: str) -> str:
    """The page with the marked parts of these kinds alone."""
    return _ONLY.sub(lambda part: part[2] if part[1] in which else "", page)


def _without_title(article: str, section: str) -> str:
    """The supplement below what the template has for its head."""
    marked = "".join(match[0] for match in _ONLY.finditer(article))
    return f"{marked}\n{section}\n"


def _end(page: str, start: int) -> int:
    """Where the element ends that begins at ``start``."""
    depth, kind = 0, ""
    for tag in _TAG.finditer(page, start):
        kind = kind or tag[2]
        if tag[2] == kind:
            depth += -1 if tag[1] else 1
        if depth == 0:
            return tag.end()
    raise AssertionError("pandoc closes what it opens")


def _linked(page: str, pages: Mapping[str, str]) -> str:
    """The page with links to the other one where that has their target."""
    own = set(_ID.findall(page))
    places = {id: name for name, text in pages.items() for id in _ID.findall(text)}

    def address(link: re.Match[str]) -> str:
        target = link[1]
        there = "" if target in own or target not in places else places[target]
        return f'href="{there}#{target}"'

    return _LINK.sub(address, page)


def _previews(pages: Mapping[str, str]) -> dict[str, str]:
    """The figures, tables and entries of the bibliography that a page names on the other one."""
    wanted = {
        target
        for text in pages.values()
        for target in re.findall(rf'href="(?:{_PAPER}|{SUPPLEMENT})#([^"]+)"', text)
    }
    return {
        match[1]: text[match.start() : _end(text, match.start())]
        for text in pages.values()
        for match in _SHOWN.finditer(text)
        if match[1] in wanted
    }
