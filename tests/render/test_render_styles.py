"""The one-column styles, read back from the pages that LaTeX and Typst make."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pypdf import PdfReader

from report.render.latex import compile_latex, write_latex
from report.render.source import in_style, read_source
from report.render.styles import STYLES
from report.render.typst import render_typst
from tests.latex import needs_latex

Write = Callable[..., Path]

ENGINES = ["typst", pytest.param("latex", marks=needs_latex)]

OPERATORS = 63
"""Rows of the long table of the sample."""


def head(style: str, **keys: object) -> str:
    """A front matter with further ``keys``, underscores for hyphens."""
    lines = [f"{key.replace('_', '-')}: {value}" for key, value in keys.items()]
    return "\n".join(
        [
            "---",
            "title: A paper",
            "author: [{name: Ada Example, affiliation: Somewhere}]",
            "bibliography: references.bib",
            f"print-style: {style}",
            *lines,
            "---\n\n",
        ]
    )


def render(engine: str, source: Path, study: str, scratch: Path) -> bytes:
    if engine == "typst":
        return render_typst(source, study)
    write_latex(source, study, scratch / "tex")
    return compile_latex(scratch / "tex", study).pdf


def pages_of(pdf: bytes) -> list[str]:
    """The text of each page in one line, hyphenation mended and dots of contents left out."""
    texts = [page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages]
    mended = [re.sub(r"(?:[.\u2060]\s*){3,}", " ", text.replace("-\n", "")) for text in texts]
    return [" ".join(text.split()) for text in mended]


@pytest.fixture(scope="module", params=ENGINES)
def report(
    request: pytest.FixtureRequest, paper: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """The pages of the sample report, by each engine."""
    return pages_of(render(request.param, paper, "course", tmp_path_factory.mktemp("report")))


def page_with(pages: list[str], words: str) -> int:
    """The printed number of the first page of text that holds ``words``."""
    return next(number for number, text in enumerate(pages[2:], 1) if words in text)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("2 Model", "2 Model The work of a layer"),
        ("3 Operators", "3 Operators The table"),
        ("4 Conclusion", "4 Conclusion Theory and"),
        ("References", "References [1]"),
        ("1 Time of one call over the batch size", "Figure 1. Time of one call"),
        ("2 Time and memory of the same runs, side by side", "Figure 2. Time and memory"),
        ("1 Devices over all cases", "Table 1. Devices"),
        ("2 Operators of one forward call at each batch size", "Table 2. Operators of one"),
    ],
)
def test_contents_and_lists_give_the_page(report: list[str], entry: str, words: str) -> None:
    assert re.search(rf"{re.escape(entry)} {page_with(report, words)}\b", report[1])


def test_contents_and_lists_are_as_deep_and_as_short_as_asked(report: list[str]) -> None:
    assert "1.1 Questions" in report[1]
    assert "A heading of the third level" not in report[1]
    assert "1.1.1 A heading of the third level" in " ".join(report[2:])
    assert "[3]" not in report[1], "a citation in a list would be the first one of the paper"
    assert "goes on for long enough" not in report[1]


def test_a_long_table_goes_over_pages_with_its_head(report: list[str]) -> None:
    holding = [text for text in report if "aten::" in text]
    assert len(holding) > 1
    for text in holding:
        assert len(re.findall(r"Operator Batch Calls Memory \(B\) Time \(ms\)", text)) == 1
    assert sum(text.count("aten::") for text in holding) == OPERATORS
    assert "Self time only; Section 2 says what is counted." in holding[-1]


def test_numbers_and_references_of_the_text(report: list[str]) -> None:
    text = " ".join(report)
    for phrase in ("Figure 2(b)", "Section 2 has the formula", "Equation (1) is used again"):
        assert phrase in text
    assert "??" not in text


@pytest.mark.parametrize("style", STYLES)
def test_a_paper_can_be_printed_in_any_style(style: str, write: Write, tmp_path: Path) -> None:
    source = write("# Results\n\nWords.\n", head("report", lof="true", abstract="Short."))
    document = source / "p.qmd"
    document.write_text(in_style(document.read_text("utf-8"), style), "utf-8")
    assert read_source(source, "p").style == style
    assert in_style(document.read_text("utf-8"), style) == document.read_text("utf-8")
    text = " ".join(pages_of(render("typst", source, "p", tmp_path)))
    assert "A paper" in text and "Ada Example" in text and "Results Words." in text
