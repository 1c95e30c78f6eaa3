"""PDFs by Typst and LaTeX, whose text is read back, and special characters in all formats."""

import html
import io
import re
import shutil
import subprocess
import tarfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pypdf import PdfReader

from figures.characters import escape_invisible
from report.core.errors import RenderError
from report.core.text.escape import markdown
from report.paper.latex_table import to_latex
from report.paper.tables import Column, Table, to_markdown
from report.render import STYLES
from report.render.latex import bundle, compile_latex, notes_of
from report.render.source import in_style, read_source
from tests.render.conftest import FRONT_MATTER, WritePaper, html_of, needs_latex, tex_of, typst_pdf

ENGINES = ["typst", pytest.param("latex", marks=needs_latex)]

#: Number of rows in the long table of the sample.
LONG_TABLE_ROWS = 63


def pages_of(pdf: bytes) -> list[str]:
    """Return each page's text as one line, without hyphenation and dot leaders."""
    pages = []
    for page in PdfReader(io.BytesIO(pdf)).pages:
        without_hyphens = re.sub("\u00ad\n|-\n", "", page.extract_text())
        without_leaders = re.sub(r"(?:[.\u2060]\s*){3,}", " ", without_hyphens)
        pages.append(" ".join(without_leaders.split()))
    return pages


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def pdf_of(engine: str, source: Path, study: str = "p") -> bytes:
    """Return the PDF of a paper by Typst or LaTeX."""
    if engine == "typst":
        return typst_pdf(source, study)
    return compile_latex(tex_of(source, study, source / f"{study}-tex").parent, study)[0]


@pytest.fixture(scope="module")
def source(paper: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the samples into a folder that LaTeX may write to."""
    return shutil.copytree(paper, tmp_path_factory.mktemp("pdf") / "samples")


@pytest.fixture(scope="module")
def sample(engine: str, source: Path) -> bytes:
    return pdf_of(engine, source, "sample")


@pytest.fixture(scope="module")
def report(engine: str, source: Path) -> bytes:
    return pdf_of(engine, source, "course")


#: A word of ``pdftotext -bbox`` with its box in points, from the upper left corner of the page.
BOX = " ".join(rf'{side}="([-\d.]+)"' for side in ("xMin", "yMin", "xMax", "yMax"))
WORD = re.compile(f"<word {BOX}>(.*?)</word>")
#: Points by which boxes may overlap (italics) or exceed the margin (hanging hyphens).
SHARED, HANGING = 1.5, 4.0
#: Page width → margins at the sides, top (with running head) and bottom, in points.  Pages of A4
#: have one column, pages of US letter two.
MARGINS = {595: (70.8, 30.0, 79.4), 612: (45.0, 30.0, 54.0)}


def misplaced_words(page: str) -> Iterator[str]:
    """Yield a sentence per word of a ``pdftotext -bbox`` page that is covered or in the margin."""
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', page)
    assert size is not None
    width, height = map(float, size.groups())
    # Roots and hats may cover letters, so words without letters or digits are left out.
    words = [word for word in WORD.findall(page) if any(map(str.isalnum, html.unescape(word[4])))]
    left, top, right, bottom = np.array([word[:4] for word in words], float).T
    # Of each pair of words: width and height of their common area, and the lower word's height.
    shared_width = np.minimum.outer(right, right) - np.maximum.outer(left, left)
    shared_height = np.minimum.outer(bottom, bottom) - np.maximum.outer(top, top)
    smaller_height = np.minimum.outer(bottom - top, bottom - top)
    overlap = (shared_width > SHARED) & (shared_height > smaller_height / 2)
    for first, second in np.argwhere(np.triu(overlap, 1)):
        yield f"{words[first]} covers {words[second]}"
    side, head, foot = MARGINS[int(width)]
    in_bottom_margin = (top + bottom) / 2 > height - foot + HANGING
    in_other_margin = (left < side - HANGING) | (right > width - side + HANGING) | (top < head)
    for word, is_low, is_outside in zip(words, in_bottom_margin, in_other_margin, strict=True):
        # Only the page number may be in the bottom margin.
        is_page_number = re.fullmatch(r"\d+|[ivx]+", word[4]) is not None
        if not is_page_number if is_low else is_outside:
            yield f"{word} is outside the text"


@pytest.mark.skipif(not shutil.which("pdftotext"), reason="poppler-utils is not installed")
def test_words_do_not_overlap_or_exceed_the_margins(sample: bytes, report: bytes) -> None:
    for pdf in (sample, report):
        command = ["pdftotext", "-bbox", "-", "-"]
        boxes = subprocess.run(command, input=pdf, check=True, capture_output=True).stdout.decode()
        pages = re.findall("<page .*?</page>", boxes, re.DOTALL)
        assert [fault for page in pages for fault in misplaced_words(page)] == []


def test_pdfs_have_numbers_and_metadata(engine: str, sample: bytes) -> None:
    reader, text = PdfReader(io.BytesIO(sample)), " ".join(pages_of(sample))
    engine_name, other = ("Typst", "LaTeX") if engine == "typst" else ("LaTeX", "Typst")
    for phrase in ("Table I", "Figure 1", "Section II", "Equation (1)", "Figure 2(b)", "1,363,673"):
        assert phrase in text
    assert f"Only {engine_name} shows" in text
    assert not [words for words in (f"Only {other}", "Only the page", "??") if words in text]
    assert reader.metadata is not None
    assert reader.metadata.title == "Work and memory of a convolutional layer: a sample paper"
    assert "Ada Example" in str(reader.metadata.author)
    assert "/CreationDate" not in reader.metadata
    catalog = reader.trailer["/Root"]
    if engine == "typst":
        assert catalog["/MarkInfo"]["/Marked"] and catalog["/Lang"].startswith("en")
        assert "pdfuaid:part" in catalog["/Metadata"].get_data().decode("utf-8")
    else:
        assert "10.1145/1498765" in text, "IEEEtran.bst drops DOIs"
        assert "/ID" not in reader.trailer


def test_struck_underlined_and_marked_words_are_printed(write: WritePaper, engine: str) -> None:
    words = "~~struck *words*~~ [underlined]{.underline} [marked]{.mark}"
    source = write(f"Body {words} end.\n", FRONT_MATTER.replace("A paper", f"Title {words} end"))
    text = " ".join(pages_of(pdf_of(engine, source)))
    for first_word in ("Title", "Body"):
        assert f"{first_word} struck words underlined marked end" in text


@needs_latex
def test_latex_runs_no_program_and_names_lost_references(write: WritePaper, tmp_path: Path) -> None:
    """The text refers to fig-lost, to fig-read only if it can read a file, and runs ``touch``."""
    main, touched = tex_of(write("Fine.\n")), tmp_path / "touched"
    bad = rf"\immediate\write18{{touch {touched}}} See \ref{{fig-lost}}."
    bad += r"\newread\f \openin\f=/etc/passwd \ifeof\f\else\ref{fig-read}\fi"
    main.write_text(main.read_text("utf-8").replace("Fine.", bad), "utf-8")
    with pytest.raises(RenderError, match="does not know reference fig-lost;"):
        compile_latex(main.parent, "p")
    assert not touched.exists()


@pytest.mark.parametrize("sentences", [30, 320])
def test_a_supplement_follows_references(write: WritePaper, sentences: int, engine: str) -> None:
    """The supplement begins on the page of the references; no sentence is lost or repeated."""
    words = " ".join(f"Sentence {n} has a few words." for n in range(sentences))
    supplement = "::: {#refs}\n:::\n\n# Supplement {.unnumbered #sec-supplement}\n\nThe end.\n"
    source = write(f"{words} Known [@williams2009].\n\n{supplement}")
    pages = pages_of(pdf_of(engine, source))
    assert [int(n) for n in re.findall(r"Sentence (\d+)", " ".join(pages))] == [*range(sentences)]
    last_page = pages[-1].lower()
    # Words of headings lack the first letter, which is a larger capital.
    words_in_order = ("eferences", "multicore", "upplement", "the end")
    positions = [last_page.index(word) for word in words_in_order]
    assert positions == sorted(positions)


@needs_latex
@pytest.mark.parametrize(("style", "package"), [("ieee", "cite.sty"), ("acm", "hyperxmp.sty")])
def test_latex_archives_compile_to_the_same_pdf(
    paper: Path, style: str, package: str, tmp_path: Path
) -> None:
    """An archive has no folders; besides the files of the paper it has the bibliography (.bbl)."""
    if subprocess.run(["kpsewhich", package], check=False, capture_output=True).returncode:
        pytest.skip(f"{package} is not installed")
    source = shutil.copytree(paper, tmp_path / "source")
    document = source / "sample.qmd"
    document.write_text(in_style(document.read_text("utf-8"), style), "utf-8")
    folder = tex_of(source, "sample", tmp_path / "tex").parent
    pdf, bibliography, notes = compile_latex(folder, "sample")
    assert notes == ()
    content = bundle(folder, "sample", bibliography)
    assert content == bundle(folder, "sample", bibliography)
    target = tmp_path / "unpacked"
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        names = archive.getnames()
        archive.extractall(target)
    assert names == sorted(names) and "sample.bbl" in names
    assert not [name for name in names if "/" in name]
    assert len(names) == 1 + len([p for p in folder.rglob("*") if p.is_file()])
    subprocess.run(["latexmk"], cwd=target, check=True, capture_output=True)
    assert (target / "sample.pdf").read_bytes() == pdf


def test_characters_and_lines_that_latex_cannot_print_are_noted() -> None:
    """U+202E is no letter but a direction mark; 1.9 pt are too few for a note."""
    log = "Overfull \\hbox (23.18pt too wide) in paragraph\nOverfull \\hbox (1.9pt too wide) in x\n"
    text = r"‹U+0416 U+0418› ‹U+202E› \guilsinglleft U+4E2D\guilsinglright"
    on_characters, on_width = notes_of("p", text, log)
    expected = "p: pdfLaTeX prints 3 characters as code points, such as ‹U+0416›"
    assert on_characters.startswith(expected)
    assert "up to 23 pt" in on_width and "lines: 1" in on_width
    assert not [*notes_of("p", "plain", "")]


#: Entry of the contents → the first words of its section.
CONTENTS = {
    "2 Model": "2 Model The work of a layer",
    "3 Operators": "3 Operators The table",
    "4 Conclusion": "4 Conclusion Theory and",
    "References": "References [1]",
    "1.1.1 A heading of the third level": "A heading of the third level",
}


def test_contents_print_page_numbers(report: bytes) -> None:
    """The title page is page 1; the text begins below the contents, on page 2."""
    pages = pages_of(report)
    for entry, words in CONTENTS.items():
        page = max(number for number, text in enumerate(pages, 1) if words in text)
        assert re.search(rf"{re.escape(entry)} {page}\b", pages[1]), entry
    text = " ".join(pages)
    for phrase in ("Figure 2(b)", "Section 2 has the formula", "Equation (1) is used again"):
        assert phrase in text
    assert text.count("1.1.1 A heading of the third level") == 2  # in the contents, and there
    assert "??" not in text


def test_a_long_table_repeats_its_heading_on_every_page(report: bytes) -> None:
    pages = [text for text in pages_of(report) if "aten::" in text]
    assert len(pages) > 1
    for text in pages:
        assert len(re.findall(r"Operator Batch Calls Memory \(B\) Time \(ms\)", text)) == 1
    assert sum(text.count("aten::") for text in pages) == LONG_TABLE_ROWS
    assert "Self time only; Section 2 says what is counted." in pages[-1]


@pytest.mark.parametrize("style", STYLES)
def test_a_paper_can_be_printed_in_any_style(style: str, write: WritePaper) -> None:
    head = FRONT_MATTER.replace("style: ieee\n", "style: report\nabstract: Short.\n")
    source = write("# Results\n\nWords.\n", head)
    document = source / "p.qmd"
    document.write_text(in_style(document.read_text("utf-8"), style), "utf-8")
    assert read_source(source, "p").style == style
    assert in_style(document.read_text("utf-8"), style) == document.read_text("utf-8")
    text = " ".join(pages_of(typst_pdf(source)))
    assert "A paper" in text and "Ada Example" in text and "Results Words." in text


LONG = "0123456789abcdef" * 6
#: Text of the data → the text that the page, Typst and LaTeX print.
TEXTS = {
    "龙芯 3A5000": ("龙芯 3A5000", "龙芯 3A5000", "‹U+9F99 U+82AF› 3A5000"),
    "Байкал-М": ("Байкал-М", "Байкал-М", "‹U+0411 U+0430 U+0439 U+043A U+0430 U+043B›-‹U+041C›"),
    "عربي": ("عربي", "عربي", "‹U+0639 U+0631 U+0628 U+064A›"),
    "हिन्दी": ("हिन्दी", "हिन्दी", "‹U+0939 U+093F U+0928 U+094D U+0926 U+0940›"),
    "r🚀s": ("r🚀s", "r‹U+1F680›s", "r‹U+1F680›s"),
    "👩\u200d💻": ("👩\u200d💻", *["‹U+1F469 U+200D U+1F4BB›"] * 2),
    "e\u0301q\u0308": ("e\u0301q\u0308", "e\u0301q\u0308", "éq‹U+0308›"),
    "Ωmega ﬁne": ("Ωmega ﬁne", "Ωmega ﬁne", "Ωmega fine"),
    "l\u202er": ("l‹U+202E›r",) * 3,
    "n\x1b[1m": ("n‹U+001B›[1m",) * 3,
    "f\uffff\ufefff": ("f‹U+FFFF U+FEFF›f",) * 3,
    LONG: (LONG, LONG, LONG),
    r"\%&_−<": (r"\%&_−<",) * 3,
}


ALL_TEXTS = " ".join(TEXTS)
#: Places of the texts, each of which begins with M and the name of the place.
FIELDS = ("title", "writer", "place", "abstract", "keyword", "prose", "caption", "cell")
TABLE = Table("tbl-x", (Column("A"),), ((f"Mcell {ALL_TEXTS}",),))
PAPER = f"""---
title: |
  Mtitle {markdown(ALL_TEXTS)}
author:
  - name: |
      Mwriter {markdown(ALL_TEXTS)}
    affiliation: |
      Mplace {markdown(ALL_TEXTS)}
abstract: |
  Mabstract {markdown(ALL_TEXTS)}
keywords:
  - |
    Mkeyword {markdown(ALL_TEXTS)}
bibliography: references.bib
print-style: ieee
---

Mprose {markdown(ALL_TEXTS)}

{to_markdown(TABLE, markdown(f"Mcaption {ALL_TEXTS}"))}
"""


def normalized(text: str) -> str:
    """Remove white space, hyphens and direction marks, which readers of PDFs add."""
    return re.sub(r"[\s\u00ad\u200b\u202a-\u202c-]", "", unicodedata.normalize("NFC", text))


@pytest.mark.parametrize("form", ["html", *ENGINES])
def test_every_field_prints_special_characters(paper: Path, tmp_path: Path, form: str) -> None:
    (tmp_path / "p.qmd").write_text(escape_invisible(PAPER), "utf-8")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "tbl-x.tex").write_text(to_latex(TABLE), "utf-8")
    shutil.copyfile(paper / "references.bib", tmp_path / "references.bib")
    if form == "html":
        text = html.unescape(re.sub("<[^>]+>", "", html_of(tmp_path)))
    else:
        text = "".join(pages_of(pdf_of(form, tmp_path)))
    assert not re.search("[\x1b\ufeff\uffff]", text)
    printed = normalized(text)
    # Captions are small capitals in print.
    assert [field for field in FIELDS if f"m{field}" not in printed.casefold()] == []
    for texts in TEXTS.values():
        expected = normalized(texts[("html", "typst", "latex").index(form)])
        # A reader may return right-to-left text in the other direction.
        assert expected in printed or expected[::-1] in printed
