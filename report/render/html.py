"""The page of one paper: HTML with MathML, figures as SVG files beside it, no outside request."""

from __future__ import annotations

import html
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from report.render.pandoc import CITATIONS, TEMPLATES, convert
from report.render.source import read_source

#: A file of its own, since a page that is served may run no other script.
SCRIPT: Final = "page.js"

_FIGURE = re.compile(r'<img[^>]*\ssrc="([^":]+)"')
_TABLE = re.compile(r'<a[^>]*\shref="(tables/[^":]+)"')


@dataclass(frozen=True)
class PageLinks:
    """Where the links of a page lead, relative to the page; None leaves a link out.

    ``downloads`` are (label, href) of data files.  The ``stylesheet`` and the script lie in one
    folder; both are copied beside the page where the link holds no slash.
    """

    pdf: str | None = None
    downloads: tuple[tuple[str, str], ...] = ()
    home: str | None = None
    stylesheet: str = "style.css"


def render_html(source: Path, study: str, links: PageLinks) -> str:
    """The complete page of the paper in the folder ``source``; raises ``RenderError``."""
    paper = read_source(source, study)
    return convert(
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
        variables={**_variables(links), "contents": paper.contents_in(page=True)},
    )


def write_page(source: Path, study: str, target: Path, links: PageLinks) -> Path:
    """Write ``index.html``, what it shows and what it offers into ``target``; returns its path.

    Raises ``RenderError`` before anything is written.
    """
    page = render_html(source, study, links)
    for name in sorted({*_FIGURE.findall(page), *_TABLE.findall(page)}):
        copy = target / html.unescape(name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / html.unescape(name), copy)
    if (source / "files").is_dir():
        shutil.copytree(source / "files", target / "files", dirs_exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    if "/" not in links.stylesheet:
        write_shared(target)
    index = target / "index.html"
    index.write_text(page, "utf-8", newline="\n")
    return index


def write_shared(target: Path) -> None:
    """Put the style sheet and the script of all pages into the folder ``target``."""
    (target / "style.css").write_text(stylesheet(), "utf-8", newline="\n")
    shutil.copyfile(TEMPLATES / "html" / SCRIPT, target / SCRIPT)


def stylesheet() -> str:
    """The one style sheet of all pages."""
    return (TEMPLATES / "html" / "style.css").read_text("utf-8")


def _variables(links: PageLinks) -> dict[str, object]:
    script = links.stylesheet.removesuffix("style.css") + SCRIPT
    variables: dict[str, object] = {
        "stylesheet": html.escape(links.stylesheet),
        "script": html.escape(script),
    }
    if links.pdf is not None:
        variables["pdf"] = html.escape(links.pdf)
    if links.home is not None:
        variables["home"] = html.escape(links.home)
    if links.downloads:
        variables["downloads"] = [
            {"label": html.escape(label), "href": html.escape(href)}
            for label, href in links.downloads
        ]
    return variables
