"""The page of one paper: HTML with MathML, figures as SVG files beside it, no outside request."""

from __future__ import annotations

import html
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from report.render.citation import bibtex_entry
from report.render.pandoc import CITATIONS, TEMPLATES, convert
from report.render.settings import Settings
from report.render.shell import parts, write_assets
from report.render.source import Source, read_source
from report.text.format import first_names

#: The entry that readers cite the paper by, beside the page.
CITATION: Final = "citation.bib"

_FIGURE = re.compile(r'<img[^>]*\ssrc="([^":]+)"')
_LINKED = re.compile(r'<a[^>]*\shref="((?:tables|figures)/[^":]+)"')
#: pandoc aligns the columns of a formula by a style, which the page's policy forbids.
_ALIGNED = re.compile(r'(<mtd\b[^>]*?) style="text-align: (left|right|center)[^"]*"')

#: What the head says in plain words, and where the page shows how it is cited.
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_AUTHOR = re.compile(r'<meta name="citation_author" content="([^"]*)">')
_PLACE: Final = '<pre id="bibtex"><code>'


@dataclass(frozen=True)
class PageLinks:
    """Where the links of a page lead, relative to the page; None leaves a link out.

    ``downloads`` are (label, href) of data files.  ``root`` leads to the folder of the site; where
    it is nothing, the page is a site by itself, and what all pages share is put beside it.
    ``measured`` is the day of the newest record, ``devices`` those that were measured.
    """

    pdf: str | None = None
    downloads: tuple[tuple[str, str], ...] = ()
    root: str = ""
    settings: Settings = field(default_factory=Settings)
    measured: str | None = None
    devices: tuple[str, ...] = ()


def render_html(source: Path, study: str, links: PageLinks) -> str:
    """The complete page of the paper in the folder ``source``; raises ``RenderError``."""
    return _rendered(source, study, links)[0]


def _rendered(source: Path, study: str, links: PageLinks) -> tuple[str, str]:
    """The page, and the entry that it is cited by."""
    paper = read_source(source, study)
    page = convert(
        paper,
        "html5",
        TEMPLATES / "html" / "page.html",
        options=(
            *CITATIONS,
            "--mathml",
            "--section-divs",
            "--shift-heading-level-by=1",
            "--syntax-highlighting=none",
            "--table-of-contents",
            # The title is the page's first heading, so that the paper's own begin one lower.
            f"--toc-depth={paper.contents_depth(page=True) + 1}",
        ),
        variables={**_variables(paper, links), "contents": paper.contents_in(page=True)},
    )
    # pandoc ends a void element as XML does, which checkers of HTML warn of.
    page = _ALIGNED.sub(r'\1 class="\2"', page).replace("<br />", "<br>")
    return _cited(page, study, links)


def write_page(source: Path, study: str, target: Path, links: PageLinks) -> Path:
    """Write ``index.html``, what it shows and what it offers into ``target``; returns its path.

    Raises ``RenderError`` before anything is written.
    """
    page, entry = _rendered(source, study, links)
    for name in sorted({*_FIGURE.findall(page), *_LINKED.findall(page)}):
        copy = target / html.unescape(name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / html.unescape(name), copy)
    if (source / "files").is_dir():
        shutil.copytree(source / "files", target / "files", dirs_exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    if not links.root:
        write_assets(target)
    (target / CITATION).write_text(entry, "ascii", newline="\n")
    index = target / "index.html"
    index.write_text(page, "utf-8", newline="\n")
    return index


def _cited(page: str, study: str, links: PageLinks) -> tuple[str, str]:
    """The page with the entry that cites it, and the entry alone."""
    (title,) = _TITLE.findall(page)
    authors = [html.unescape(author) for author in _AUTHOR.findall(page)]
    entry = bibtex_entry(study, html.unescape(title), authors, links.measured, links.settings.url)
    return page.replace(_PLACE, _PLACE + html.escape(entry, quote=False), 1), entry


def _variables(paper: Source, links: PageLinks) -> dict[str, object]:
    """What the template shows beside the paper, as HTML."""
    url = links.settings.url
    page = f"{url}{paper.study}/" if url else ""
    given = {
        "study": paper.study,
        "pdf": links.pdf,
        "home": f"{links.root}index.html" if links.root else None,
        "canonical": page,
        "citation-pdf": f"{page}{links.pdf}" if page and links.pdf else None,
        "measured": links.measured,
        "measured-slashes": (links.measured or "").replace("-", "/"),
        "devices": first_names(links.devices),
        "citation-file": CITATION,
    }
    variables: dict[str, object] = {
        name: html.escape(content) for name, content in given.items() if content
    }
    if links.downloads:
        variables["downloads"] = [
            {"label": html.escape(label), "href": html.escape(href)}
            for label, href in links.downloads
        ]
    return {**variables, **parts(links.settings, links.root)}
