"""The page of one paper: HTML with MathML, figures as SVG files beside it, no outside request."""

from __future__ import annotations

import html
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from report.core.errors import RenderError
from report.core.text.escape import latex
from report.core.text.format import first_names
from report.render.pandoc import TEMPLATES, Edition
from report.render.problems import filter_problem
from report.render.shell import PAPER_SCRIPTS, Settings, render_template
from report.render.source import Source

#: The entry that readers cite the paper by, beside the page.
BIBTEX: Final = "citation.bib"

_FIGURE = re.compile(r'<img[^>]*\ssrc="([^":]+)"')
_LINKED = re.compile(r'<a[^>]*\shref="((?:tables|figures|pictures)/[^":]+)"')
#: pandoc aligns the columns of a formula by a style, which the page's policy forbids.
_ALIGNED = re.compile(r'(<mtd\b[^>]*?) style="text-align: (left|right|center)[^"]*"')
#: A number with grouped digits, which the filter makes a text so that it stays whole.
_GROUPED = re.compile(r'<mtext mathvariant="normal">([\d,.]+)</mtext>')
#: A cell of a table, with its alignment.
_CELL = re.compile(r'<(t[dh])(?: style="text-align: (\w+);")?>(.*?)</\1>', re.DOTALL)
#: Cells with more characters than this may break their lines; names and numbers stay whole.
_LONG_CELL: Final = 26
#: What a reader does not see of a cell: a formula but for its source, and tags.
_UNSEEN = re.compile(r"<math\b.*?<annotation[^>]*>|</annotation>.*?</math>|<[^>]+>", re.DOTALL)
_ID = re.compile(r'\sid="([^"]+)"')
_INNER_LINK = re.compile(r'<a\b[^>]*\shref="#([^"]+)"')
_NOTES = re.compile(r'<section(?= id="footnotes")(.*?)</section>', re.DOTALL)

#: What the head says in plain words, and where the page shows how it is cited.
_META: Final = r'<meta name="{}" content="([^"]*)">'
_CITED: Final = '<pre id="bibtex" tabindex="0" role="region" aria-label="BibTeX entry"><code>'


#: The folder of the site, from the page of a paper.
_ROOT: Final = "../"


@dataclass(frozen=True)
class Publication:
    """What a page says beside its paper, and offers beside itself.

    ``measured`` is the day of the newest record, ``devices`` those that were measured; ``pdf`` and
    ``samples`` are files in the folder of the page, None where they are not made.
    """

    settings: Settings
    measured: str | None = None
    devices: tuple[str, ...] = ()
    pdf: str | None = None
    samples: str | None = None


def page_edition(paper: Source, publication: Publication) -> Edition:
    """How pandoc writes the page of a paper."""
    return Edition(
        "html",
        TEMPLATES / "html" / "page.html",
        options={
            "highlight_method": "none",
            "html_math_method": "mathml",
            "section_divs": True,
            "table_of_contents": True,
            # The title is the page's first heading, above two levels of the paper's own.
            "toc_depth": 3,
        },
        variables={**_variables(paper, publication), "contents": paper.contents_in(page=True)},
    )


def write_page(paper: Source, target: Path, publication: Publication, written: str) -> str:
    """Write ``index.html``, what it shows and what it offers into ``target``; returns its HTML.

    ``written`` is what pandoc made of ``page_edition``.  Raises ``RenderError`` before anything is
    written.
    """
    # pandoc ends a void element as XML does, which checkers of HTML warn of.
    page = re.sub(r"<(br|hr) />", r"<\1>", _ALIGNED.sub(r'\1 class="\2"', written))
    page = _GROUPED.sub(r"<mn>\1</mn>", page)
    page = _CELL.sub(_with_classes, _NOTES.sub(r"<div\1</div>", page))
    _check_links(page, paper)
    entry = _entry(page, paper, publication)
    page = page.replace(_CITED, _CITED + html.escape(entry, quote=False), 1)
    for name in sorted({*_FIGURE.findall(page), *_LINKED.findall(page)}):
        copy = target / html.unescape(name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(paper.folder / html.unescape(name), copy)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in {BIBTEX: entry, "index.html": page}.items():
        (target / name).write_text(text, "utf-8", newline="\n")
    return page


def _with_classes(cell: re.Match[str]) -> str:
    """A cell whose looks are classes, since the page may hold no style."""
    tag, side, content = cell.groups()
    long = len(html.unescape(_UNSEEN.sub("", content))) > _LONG_CELL
    classes = [*([side] if side in ("right", "center") else []), *(["long"] if long else [])]
    named = f' class="{" ".join(classes)}"' if classes else ""
    return f"<{tag}{named}>{content}</{tag}>"


def _check_links(page: str, paper: Source) -> None:
    """Refuse a link to a place that the page does not have; raises ``RenderError``."""
    there = set(_ID.findall(page))
    lost = dict.fromkeys(id_ for id_ in _INNER_LINK.findall(page) if id_ not in there)
    remedy = "leads nowhere; add an element with that id or fix the link"
    problems = (
        filter_problem(paper.document, f"#{id_}", f"the link to #{id_} {remedy}")
        for id_ in map(html.unescape, lost)
    )
    if lost:
        raise RenderError("\n".join(problems))


def _entry(page: str, paper: Source, publication: Publication) -> str:
    """How the paper is cited, for BibTeX, in the plain words of the page's head."""

    def plain(name: str) -> list[str]:
        texts = re.findall(_META.format(name), page)
        return [f"{{{latex(html.unescape(text))}}}" for text in texts]

    day, url = publication.measured, _address(paper, publication)
    fields = {
        "title": plain("citation_title")[0],
        # An organization would else be taken for a first and a last name.
        "author": " and ".join(plain("citation_author")),
        **({"year": day[:4], "note": f"Data of {day}"} if day else {}),
        **({"url": url} if url else {}),
    }
    lines = "".join(f"  {name} = {{{content}}},\n" for name, content in fields.items())
    return f"@misc{{{paper.study},\n{lines}}}\n"


def _address(paper: Source, publication: Publication) -> str:
    """Where the page will be, empty where the site does not say where it is published."""
    url = publication.settings.url
    return f"{url}{paper.study}/" if url else ""


def _variables(paper: Source, publication: Publication) -> dict[str, object]:
    """What the template shows beside the paper, as HTML."""
    page, measured, pdf = _address(paper, publication), publication.measured, publication.pdf
    given = {
        "study": paper.study,
        "pdf": pdf,
        "samples": publication.samples,
        "canonical": page,
        "citation-pdf": f"{page}{pdf}" if page and pdf else None,
        "measured": measured,
        "measured-slashes": (measured or "").replace("-", "/"),
        "devices": first_names(publication.devices),
        "licence": publication.settings.licence,
        "bibtex-file": BIBTEX,
    }
    shared = {
        f"site-{part}": render_template(
            f"{part}.html.j2", publication.settings, root=_ROOT, here="", scripts=PAPER_SCRIPTS
        )
        for part in ("head", "header", "footer")
    }
    return {**{name: html.escape(content) for name, content in given.items() if content}, **shared}
