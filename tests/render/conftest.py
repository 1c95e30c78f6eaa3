"""Sample papers with texts from the folder ``sample``, and functions that render a paper's source.

The source of a paper is a folder with its text (``p.qmd``), figures, tables and bibliography.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from figures.panels import Drawing, Points, Scaling
from figures.render import Rendered, render
from report.render.html import Publication, page_format, write_page
from report.render.latex import latex_format, latex_lacks, write_latex
from report.render.pandoc import convert
from report.render.shell import Settings
from report.render.source import read_source
from report.render.typst import render_typst, typst_format

SAMPLE = Path(__file__).parent / "sample"

FRONT_MATTER = """---
title: A paper
author:
  - name: Ada Example
bibliography: references.bib
print-style: ieee
---

"""

PUBLICATION = Publication(Settings())

#: Function that writes a paper with a body and optionally another ``head``; returns its folder.
WritePaper = Callable[..., Path]
#: What this machine lacks for LaTeX; empty if it lacks nothing.
LACKING = latex_lacks()
needs_latex = pytest.mark.skipif(bool(LACKING), reason=LACKING)


def drawn(quantity: str) -> Rendered:
    """Draw a quantity over the batch, with the PNG for Word."""
    line = Points("Forward", (16, 256), (3.5, 56.0))
    drawing = Drawing((Scaling("Batch", f"{quantity} (s)", (line,)),))
    return render(drawing, f"s/fig-{quantity}", word=True)


def html_of(
    source: Path,
    study: str = "p",
    target: Path | None = None,
    publication: Publication = PUBLICATION,
) -> str:
    """Write the page of a paper into ``target`` (default: below the source); return the HTML.

    ``study`` is the name of the text file without ending.
    """
    paper = read_source(source, study)
    texts, _ = convert(paper, [page_format(paper, publication)])
    return write_page(paper, target or source / "page", publication, texts["html"])


def tex_of(source: Path, study: str = "p", target: Path | None = None) -> Path:
    """Write a paper's LaTeX into ``target`` (default: below the source); return the main file."""
    paper = read_source(source, study)
    texts, _ = convert(paper, [latex_format(paper)])
    return write_latex(paper, target or source / "tex", texts["latex"])


def typst_of(source: Path, study: str = "p") -> str:
    """Return a paper as Typst, before the template."""
    paper = read_source(source, study)
    return convert(paper, [typst_format(paper)])[0]["typst-citations"]


def typst_pdf(source: Path, study: str = "p") -> bytes:
    return render_typst(read_source(source, study), typst_of(source, study))


@pytest.fixture(scope="session")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the source folder of the samples; tests may only read the folder."""
    folder = tmp_path_factory.mktemp("source") / "sample"
    shutil.copytree(SAMPLE, folder)
    (folder / "figures").mkdir()
    for name in ("time", "memory"):
        figure = drawn(name)
        for ending, content in (("pdf", figure.pdf), ("svg", figure.svg), ("png", figure.png)):
            (folder / "figures" / f"{name}.{ending}").write_bytes(content)
    return folder


@pytest.fixture(scope="session")
def featured(paper: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a paper with all features of the filter as ``p.qmd``; tests may only add folders."""
    folder = shutil.copytree(paper, tmp_path_factory.mktemp("featured") / "p")
    sample, more = ((folder / name).read_text("utf-8") for name in ("sample.qmd", "features.md"))
    text = sample.replace("# Introduction", f"{more}# Introduction", 1)
    (folder / "p.qmd").write_text(text, "utf-8")
    return folder


@pytest.fixture
def write(paper: Path, tmp_path: Path) -> WritePaper:
    """Return a function that writes ``p.qmd`` with the sample's figures and bibliography."""

    def make(body: str, head: str = FRONT_MATTER) -> Path:
        folder = shutil.copytree(paper, tmp_path / "p", dirs_exist_ok=True)
        (folder / "p.qmd").write_text(head + body, "utf-8")
        return folder

    return make
