"""A Quarto website of all papers, and its rendering where the ``quarto`` command is installed."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

import msgspec
import yaml

from report.errors import RenderError
from report.render.command import run
from report.render.pandoc import TEMPLATES
from report.render.problems import name_of, place_of_line, refusal
from report.render.settings import Settings
from report.render.site import Entry
from report.render.source import Source, read_source
from report.text.escape import latex

#: The first version with one model for all cross references, which the papers rely on.
_NEEDED: Final = ">=1.4"

#: The formats that the project declares.
FORMATS: Final = ("html", "pdf")

_TIME_LIMIT_S: Final = 600.0
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_DOCUMENT: Final = re.compile(r"([\w-]+)\.qmd(?::(\d+))?")
#: What a page links to beside figures.
_RESOURCES: Final = "*/tables/*.csv"

_ONE_COLUMN: Final[Mapping[str, Any]] = {
    "documentclass": "scrartcl",
    "papersize": "a4",
    "fontsize": "11pt",
}
_PDF_CLASSES: Final[Mapping[str, Mapping[str, Any]]] = {
    "ieee": {"documentclass": "IEEEtran", "classoption": ["conference"]},
    "acm": {"documentclass": "acmart", "classoption": ["sigconf", "nonacm"]},
    "report": {**_ONE_COLUMN, "classoption": ["titlepage", "abstract=true"]},
    "article": {**_ONE_COLUMN, "classoption": ["abstract=true"]},
}
_HEADER: Final = "../ridgepoint.tex"


def write_project(sources: Mapping[str, Path], target: Path, entries: Mapping[str, Entry]) -> Path:
    """Write the Quarto project of the papers ``study -> source folder`` into ``target``.

    ``entries`` are what its list says of each.
    ``quarto render`` in that folder makes the site and the PDFs.  Returns the path of its
    ``_quarto.yml``; raises ``RenderError``.
    """
    papers = [read_source(folder, study) for study, folder in sources.items()]
    listed = [msgspec.structs.replace(entries[p.study], page=_page(p)) for p in papers]
    for paper in papers:
        _write_paper(paper, target / paper.study)
    _write_extension(target / "_extensions" / "ridgepoint")
    for origin in ("numeric.csl", "quarto/ridgepoint.tex"):
        shutil.copyfile(TEMPLATES / origin, target / Path(origin).name)
    _write(target / "index.qmd", _index(listed))
    return _write(target / "_quarto.yml", _yaml(project_config(listed)))


def project_config(entries: Sequence[Entry]) -> dict[str, Any]:
    """The content of ``_quarto.yml``."""
    return {
        "project": {
            "type": "website",
            "output-dir": "_site",
            "render": ["index.qmd", *(entry.page for entry in entries)],
            "resources": [_RESOURCES],
        },
        "website": {
            "title": Settings().title,
            "page-navigation": True,
            "navbar": {"left": [{"href": "index.qmd", "text": "All studies"}]},
            "sidebar": {
                "style": "floating",
                "contents": [{"href": entry.page, "text": entry.title} for entry in entries],
            },
        },
        "quarto-required": _NEEDED,
        "filters": ["ridgepoint"],
        "csl": "numeric.csl",
        "link-citations": True,
        "execute": {"enabled": False},
        "format": {"html": _html_options()},
    }


def paper_config(paper: Source) -> dict[str, Any]:
    """The content of a paper's ``_metadata.yml``: its formats, with the class of its style.

    ``toc-depth``, ``lof`` and ``lot`` are Quarto's own keys and stay in the paper's front matter.
    """
    return {
        "format": {
            "html": {**_html_options(), "toc": paper.contents_in(page=True)},
            "pdf": {
                "default-image-extension": "pdf",
                "include-in-header": _header(paper.front.get("abstract-title")),
                "keep-tex": True,
                **_PDF_CLASSES[paper.style],
                **({"toc": paper.contents_in(page=False)} if paper.one_column else {}),
            },
        }
    }


def _header(abstract_title: str | None) -> str | list[dict[str, str]]:
    """What goes into the preamble; Quarto itself heads the abstract so on the page only.

    The hook comes after babel's, which sets the word for the language of the paper.
    """
    if abstract_title is None:
        return _HEADER
    renamed = r"\AddToHook{begindocument/end}{\renewcommand{\abstractname}{%s}}"
    return [{"file": _HEADER}, {"text": renamed % latex(abstract_title)}]


def _html_options() -> dict[str, Any]:
    return {
        "default-image-extension": "svg",
        "html-math-method": "mathml",
        # Of both themes the fonts are those of the system: others come from another host.
        "theme": {"light": "default", "dark": "slate"},
        "respect-user-color-scheme": True,
        "include-in-header": [{"text": _PAGE_STYLE}],
        "toc": True,
    }


#: Long words break, columns are as wide as their words, formulas wider than a phone scroll,
#: and the dark theme's text has a contrast of 11.
_PAGE_STYLE: Final = (
    "<style>a, code, p, figcaption { overflow-wrap: anywhere } col { width: auto !important } "
    "body.quarto-dark { --bs-body-color: #dee2e6; color: #dee2e6 } "
    'math[display="block"] { display: block; overflow-x: auto; max-width: 100% }</style>'
)


def _page(paper: Source) -> str:
    return f"{paper.study}/{paper.study}.qmd"


def _write_paper(paper: Source, folder: Path) -> None:
    kept_here = shutil.ignore_patterns("values.json")
    shutil.copytree(paper.folder, folder, ignore=kept_here, dirs_exist_ok=True)
    _write(folder / "_metadata.yml", _yaml(paper_config(paper)))


def _write_extension(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("quarto/_extension.yml", "quarto/ridgepoint.lua", "filter/tabular.lua"):
        shutil.copyfile(TEMPLATES / name, folder / Path(name).name)


def _index(entries: Sequence[Entry]) -> str:
    """The list of the papers, as markdown."""
    head = f"---\ntitle: {json.dumps(Settings().title)}\n---\n\n{Settings().lead}\n\n"
    papers = (f"## [{each.title}]({each.page})\n\n{each.abstract}\n\n" for each in entries)
    return head + "".join(papers)


def _yaml(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=1000)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8", newline="\n")
    return path


def find_quarto() -> Path:
    """The ``quarto`` command: ``QUARTO_PATH``, else the one on the PATH; else ``RenderError``."""
    named = os.environ.get("QUARTO_PATH")
    found = shutil.which(named or "quarto")
    if found is None:
        where = f"QUARTO_PATH={named}" if named else "the PATH"
        raise RenderError(
            f"quarto: not found by {where}; run 'pip install quarto-cli' or set QUARTO_PATH to "
            "the command."
        )
    return Path(found)


def quarto_version() -> str:
    """The version of the ``quarto`` command; raises ``RenderError`` as ``find_quarto`` does."""
    path = find_quarto()
    return run([path, "--version"], path.parent, 60.0, environment=_environment()).stdout.strip()


def render_quarto(project: Path, formats: Sequence[str] = FORMATS) -> Path:
    """Run ``quarto render`` on a project that ``write_project`` made.

    ``formats`` are some of ``FORMATS``.  Returns the folder of the site.  Raises ``RenderError``
    with Quarto's own words and the place that they name.
    """
    command: list[str | Path] = [find_quarto(), "render", str(project.resolve())]
    if set(formats) != set(FORMATS):
        command += ["--to", formats[0]]
    finished = run(command, project, _TIME_LIMIT_S, environment=_environment())
    if finished.returncode != 0:
        raise _refusal(project, _own_words(finished).replace(f"{project}/", ""))
    return project / "_site"


def _refusal(project: Path, words: str) -> RenderError:
    named = _DOCUMENT.search(words)
    if named is None:
        return refusal("out/quarto", "Quarto", words)
    document = project / named[1] / f"{named[1]}.qmd"
    place = place_of_line(document, int(named[2])) if named[2] else name_of(document)
    return refusal(place, "Quarto", words)


def _environment() -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "TZ": "UTC", "SOURCE_DATE_EPOCH": "0"}


def _own_words(finished: CompletedProcess[str]) -> str:
    """Quarto's output from its first error on, or its last lines."""
    lines = _ANSI.sub("", finished.stderr or finished.stdout).strip().split("\n")
    for number, line in enumerate(lines):
        if line.startswith(("ERROR", "FATAL", "Error")):
            return "\n".join(lines[number : number + 12])
    return "\n".join(lines[-6:])
