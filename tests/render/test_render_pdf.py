"""Both ways to a PDF, read back from the bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from report.errors import RenderError
from report.render.latex import compile_latex, write_latex
from report.render.typst import render_typst
from tests.latex import needs_latex

Write = Callable[..., Path]


def text_of(pdf: bytes) -> str:
    pages = PdfReader(io.BytesIO(pdf)).pages
    text = " ".join(page.extract_text() for page in pages)
    return " ".join(text.replace("\u00ad\n", "").replace("-\n", "").split())


@pytest.fixture(scope="module")
def typst_pdf(paper: Path) -> bytes:
    return render_typst(paper, "sample")


@pytest.fixture(scope="module")
def latex_folder(paper: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("tex") / "sample"
    write_latex(paper, "sample", target)
    return target


@pytest.fixture(scope="module")
def latex_pdf(latex_folder: Path) -> bytes:
    return compile_latex(latex_folder, "sample").pdf


def numbered_text(pdf: bytes) -> str:
    """The text of the sample, in which everything has its number."""
    text = text_of(pdf)
    for phrase in ("Table I", "Figure 1", "Section II", "Equation (1)", "Figure 2(b)", "1,363,673"):
        assert phrase in text
    return text


def assert_described(reader: PdfReader) -> None:
    """The metadata of the sample, without a date."""
    assert reader.metadata is not None
    assert reader.metadata.title == "Work and memory of a convolutional layer: a sample paper"
    assert "Ada Example" in str(reader.metadata.author)
    assert "/CreationDate" not in reader.metadata


def test_typst_has_the_numbers_of_the_text(typst_pdf: bytes) -> None:
    text = numbered_text(typst_pdf)
    assert "Only Typst shows" in text
    assert "Only the page shows" not in text


def test_typst_is_accessible_and_says_what_it_is(typst_pdf: bytes) -> None:
    reader = PdfReader(io.BytesIO(typst_pdf))
    catalog = reader.trailer["/Root"]
    assert catalog["/MarkInfo"]["/Marked"]
    assert catalog["/Lang"].startswith("en")
    assert_described(reader)
    assert "pdfuaid:part" in catalog["/Metadata"].get_data().decode("utf-8")


def alternatives(item: Any) -> Iterator[str]:
    """The alternative texts in a PDF's tree of tags."""
    item = item.get_object()
    if isinstance(item, list):
        for child in item:
            yield from alternatives(child)
    elif isinstance(item, dict):
        if "/Alt" in item:
            yield str(item["/Alt"])
        if "/K" in item:
            yield from alternatives(item["/K"])


@needs_latex
def test_latex_has_the_numbers_of_the_text(latex_pdf: bytes) -> None:
    text = numbered_text(latex_pdf)
    assert "Only LaTeX shows" in text
    assert "??" not in text
    assert "10.1145/1498765" in text, "IEEEtran.bst drops DOIs"


@needs_latex
def test_latex_says_what_it_is(latex_pdf: bytes) -> None:
    reader = PdfReader(io.BytesIO(latex_pdf))
    assert_described(reader)
    assert "/ID" not in reader.trailer


@needs_latex
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (r"\nosuchcommand", r"LaTeX refused it (Undefined control"),
        (r"\ref{fig-lost}", "does not know reference fig-lost"),
        (r"\immediate\write18{touch ran}", ""),
    ],
)
def test_latex_says_what_is_wrong_and_runs_no_program(
    write: Write, tmp_path: Path, command: str, words: str
) -> None:
    main = write_latex(write("Fine.\n"), "p", tmp_path / "tex")
    main.write_text(main.read_text("utf-8").replace("Fine.", f"Fine.\n{command}"), "utf-8")
    try:
        pdf = compile_latex(tmp_path / "tex", "p").pdf
    except RenderError as error:
        assert words and words in str(error)
    else:
        assert pdf.startswith(b"%PDF") and not words
    assert not [*tmp_path.rglob("ran")]
