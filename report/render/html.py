"""Page of one paper: HTML with MathML, figures as SVG files, no request to other sites."""

import html
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from report.core.errors import RenderError
from report.core.text.escape import latex, with_apostrophes
from report.core.text.format import first_names
from report.render.pandoc import TEMPLATES, OutputFormat
from report.render.problems import filter_problem
from report.render.shell import PAPER_SCRIPTS, Settings, render_template
from report.render.source import PaperSource

#: File with the BibTeX entry for citing the paper, in the folder of the page.
BIBTEX: Final = "citation.bib"

#: Files that a page shows.
_SHOWN_FILE = re.compile(r'<(?:img|source)[^>]*\ssrc(?:set)?="([^":]+)"')
#: Files that a page links to.
_LINKED_FILE = re.compile(r'<a[^>]*\shref="((?:tables|figures|pictures)/[^":]+)"')
#: Style by which pandoc aligns a column of a formula; the page's policy forbids styles.
_ALIGNED = re.compile(r'(<mtd\b[^>]*?) style="text-align: (left|right|center)[^"]*"')
#: A number with grouped digits, which the filter writes as text so that it stays one element.
_GROUPED = re.compile(r'<mtext mathvariant="normal">([\d,.]+)</mtext>')
#: The sign between two numbers, such as the sides of a map; no line may break there.
_TIMES = re.compile(r"(?<=[\d>]) × (?=[\d<])")
#: A cell of a table, with its alignment.
_CELL = re.compile(r'<(t[dh])(?: style="text-align: (\w+);")?>(.*?)</\1>', re.DOTALL)
#: Largest number of characters of a cell that is never wrapped, such as a name or a number.
_UNWRAPPED_CHARACTERS: Final = 26
#: Parts of a cell that are not counted: tags, and formulas except their TeX source.
_UNCOUNTED = re.compile(r"<math\b.*?<annotation[^>]*>|</annotation>.*?</math>|<[^>]+>", re.DOTALL)
_ID = re.compile(r'\sid="([^"]+)"')
_INNER_LINK = re.compile(r'<a\b[^>]*\shref="#([^"]+)"')
#: The section of footnotes; it has no heading, so that it must not be a section.
_NOTES = re.compile(r'<section(?= id="footnotes")(.*?)</section>', re.DOTALL)

#: A meta element of the head.
_META: Final = r'<meta name="{}" content="([^"]*)">'
#: Code of the page before the BibTeX entry.
_BEFORE_ENTRY: Final = (
    '<pre id="bibtex" tabindex="0" role="region" aria-label="BibTeX entry"><code>'
)
#: Place of the key figure in the page.
_KEY_FIGURE_PLACE: Final = "<!--key-figure-->\n"


@dataclass(frozen=True)
class Publication:
    """Content of a page besides the paper, and files that the page links to.

    ``measured``: day of the newest record.  ``devices``: measured devices.  ``records``: number of
    records.  ``pdf``, ``samples``: names of files in the folder of the page, None if missing.
    ``replicated``: a line on replications of the paper.  ``key_figure``: id of the figure under the
    abstract.  ``is_report``: true for a replication report.
    """

    settings: Settings
    measured: str | None = None
    devices: tuple[str, ...] = ()
    records: int = 0
    pdf: str | None = None
    samples: str | None = None
    replicated: str = ""
    key_figure: str = ""
    is_report: bool = False


def page_format(paper: PaperSource, publication: Publication) -> OutputFormat:
    """Return the format in which pandoc writes the page of a paper."""
    return OutputFormat(
        "html",
        TEMPLATES / "html" / "page.html",
        options={
            "highlight_method": "none",
            "html_math_method": "mathml",
            "section_divs": True,
            "table_of_contents": True,
            # Level 1 is the title; the contents list two levels of headings below.
            "toc_depth": 3,
        },
        variables={**_variables(paper, publication), "contents": paper.has_toc(page=True)},
    )


def write_page(paper: PaperSource, target: Path, publication: Publication, written: str) -> str:
    """Write ``index.html``, and the files that it shows or links, into ``target``; return the HTML.

    ``written`` is the text that pandoc wrote for ``page_format``.  Raises ``RenderError`` for a
    broken link, before any file is written.
    """
    page = _ALIGNED.sub(r'\1 class="\2"', written)
    # pandoc closes empty elements as in XML; HTML checkers would warn.
    page = re.sub(r"<(br|hr) />", r"<\1>", page)
    page = _GROUPED.sub(r"<mn>\1</mn>", page)
    page = _TIMES.sub("\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}", page)
    page = _NOTES.sub(r"<div\1</div>", page)
    page = _CELL.sub(_classes_for_style, page)
    # pandoc's hat over a symbol is a combining character, which has nothing to combine with.
    page = page.replace("\N{COMBINING CIRCUMFLEX ACCENT}</mo>", "^</mo>")
    page = _move_key_figure(page, publication.key_figure)
    _check_links(page, paper)
    entry = _bibtex_entry(page, paper, publication)
    page = page.replace(_BEFORE_ENTRY, _BEFORE_ENTRY + html.escape(entry, quote=False), 1)
    for name in sorted({*_SHOWN_FILE.findall(page), *_LINKED_FILE.findall(page)}):
        copy = target / html.unescape(name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(paper.folder / html.unescape(name), copy)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in {BIBTEX: entry, "index.html": page}.items():
        (target / name).write_text(text, "utf-8", newline="\n")
    return page


def _move_key_figure(page: str, id: str) -> str:
    """Move the figure ``id`` from the text to its place under the abstract, if the page has it."""
    figure = re.search(rf'<figure id="{re.escape(id)}".*?</figure>\n', page, re.DOTALL)
    if figure is None:
        return page.replace(_KEY_FIGURE_PLACE, "", 1)
    return page.replace(figure[0], "", 1).replace(_KEY_FIGURE_PLACE, figure[0], 1)


def _classes_for_style(cell: re.Match[str]) -> str:
    """Replace the style of a table cell by classes, since the page's policy forbids styles."""
    tag, side, content = cell.groups()
    long = len(html.unescape(_UNCOUNTED.sub("", content))) > _UNWRAPPED_CHARACTERS
    classes = [side] if side in ("right", "center") else []
    classes += ["long"] if long else []
    class_attribute = f' class="{" ".join(classes)}"' if classes else ""
    return f"<{tag}{class_attribute}>{content}</{tag}>"


def _check_links(page: str, paper: PaperSource) -> None:
    """Raise ``RenderError`` for links to ids that the page lacks."""
    ids = set(_ID.findall(page))
    problems: dict[str, str] = {}
    for link in _INNER_LINK.findall(page):
        if link not in ids:
            target = f"#{html.unescape(link)}"
            message = f"the link to {target} leads nowhere; add an element with that id or fix it"
            problems[link] = filter_problem(paper.document, target, message)
    if problems:
        raise RenderError("\n".join(problems.values()))


def _bibtex_entry(page: str, paper: PaperSource, publication: Publication) -> str:
    """Write the BibTeX entry of the paper, from the meta elements of the page's head."""

    def metadata(name: str) -> list[str]:
        texts = re.findall(_META.format(name), page)
        return [f"{{{latex(html.unescape(text))}}}" for text in texts]

    day, url = publication.measured, _address(paper, publication)
    fields = {
        "title": metadata("citation_title")[0],
        # Without inner braces, BibTeX would split an organization into first and last name.
        "author": " and ".join(metadata("citation_author")),
        **({"year": day[:4], "note": f"Data of {day}"} if day else {}),
        **({"url": url} if url else {}),
    }
    lines = "".join(f"  {name} = {{{content}}},\n" for name, content in fields.items())
    return f"@misc{{{paper.study},\n{lines}}}\n"


def _address(paper: PaperSource, publication: Publication) -> str:
    """Return the address of the published page, empty if the settings have no address."""
    url = publication.settings.url
    return f"{url}{paper.study}/" if url else ""


def _variables(paper: PaperSource, publication: Publication) -> dict[str, object]:
    """Return the variables of the page's template, as HTML."""
    page, measured, pdf = _address(paper, publication), publication.measured, publication.pdf
    fields = {
        "study": paper.study,
        "pdf": pdf,
        "samples": publication.samples,
        "canonical": page,
        "citation-pdf": f"{page}{pdf}" if page and pdf else None,
        "measured": measured,
        "measured-slashes": (measured or "").replace("-", "/"),
        "devices": first_names(publication.devices),
        "replicated": with_apostrophes(publication.replicated),
        "records": str(publication.records or ""),
        "licence": publication.settings.licence,
        "bibtex-file": BIBTEX,
    }
    variables = {name: html.escape(content) for name, content in fields.items() if content}
    content: dict[str, object] = {"root": "../", "current_page": "", "scripts": PAPER_SCRIPTS}
    content["reports"] = publication.is_report
    for part in ("head", "header", "footer"):
        text = render_template(f"{part}.html.j2", publication.settings, **content)
        variables[f"site-{part}"] = text
    return {**variables}
