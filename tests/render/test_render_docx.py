"""The Word document, read back from its XML: pictures, formulas, tables, links, styles."""

import io
import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from report.core.errors import RenderError
from report.render import docx
from report.render.docx import DOCX_FORMAT, render_docx
from report.render.pandoc import convert
from report.render.source import read_source
from tests.render.conftest import WritePaper

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}oMath"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
FIGURE = '# A\n\n![B](figures/time){#fig-b fig-alt="alt"}\n'


def word_of(folder: Path) -> zipfile.ZipFile:
    """Render the paper in a folder as a Word document, which is a zip archive."""
    paper = read_source(folder, "p")
    text = convert(paper, [DOCX_FORMAT])[0]["docx"]
    return zipfile.ZipFile(io.BytesIO(render_docx(paper, text)))


def font_sizes(word: zipfile.ZipFile) -> set[bytes]:
    """Return the elements with font sizes of all styles, in half points."""
    return set(re.findall(rb"<w:sz [^>]+>", word.read("word/styles.xml")))


def text_of(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


@pytest.fixture(scope="module")
def word(featured: Path) -> zipfile.ZipFile:
    return word_of(featured)


@pytest.fixture(scope="module")
def body(word: zipfile.ZipFile) -> ElementTree.Element:
    return ElementTree.fromstring(word.read("word/document.xml"))


def test_word_has_references_captions_and_values(body: ElementTree.Element) -> None:
    text = "\n".join(map(text_of, body.iter(f"{W}p")))
    for words in (
        *("Figure 3, and", "as in 3", "Figure 4(b)", "Section 2", "Equation (1)", "1.1 Questions"),
        *("Figure 1. C", "(b) Right", "Table 1. The caption", "A dash: the counter"),
        *("21,233,664 FLOP", "Williams et al.", "Not the same clock", "References"),
        *("Ada Example, Department of Samples, University of Tests", "a_b & c"),
    ):
        assert words in text, words
    for words in ("Only the page", "Only LaTeX", "Only Typst", "@fig", "@tbl", "{#eq"):
        assert words not in text, words
    bookmarks = {mark.get(f"{W}name") for mark in body.iter(f"{W}bookmarkStart")}
    anchors = {link.get(f"{W}anchor") for link in body.iter(f"{W}hyperlink")} - {None}
    assert len(anchors) > 5 and anchors <= bookmarks


def test_pictures_have_a_size_and_an_alternative_text(
    word: zipfile.ZipFile, body: ElementTree.Element
) -> None:
    """A column is 3.5 inches wide, of 914,400 units of Word."""
    alternative_texts = [properties.get("descr") for properties in body.iter(f"{DRAWING}docPr")]
    assert "Time & <batch>, 100 %" in alternative_texts and all(alternative_texts)
    extent = next(body.iter(f"{DRAWING}extent"))
    assert int(extent.get("cx", 0)) == pytest.approx(3.5 * 914_400, rel=0.01)
    pictures = [name for name in word.namelist() if name.startswith("word/media/")]
    assert len(pictures) == 2, "two figures, each shown several times"
    for name in pictures:
        with Image.open(io.BytesIO(word.read(name))) as picture:
            assert picture.format == "PNG" and round(picture.info["dpi"][0]) == 300


def test_formulas_are_words_own_without_latex(body: ElementTree.Element) -> None:
    formulas = [text_of(formula).replace(" ", "") for formula in body.iter(MATH)]
    assert any(formula.endswith("BKHW(1)") for formula in formulas)
    assert not any("\\" in formula for formula in formulas)


def test_columns_of_tables_are_wide_enough_for_their_numbers(body: ElementTree.Element) -> None:
    for table in body.iter(f"{W}tbl"):
        assert next(table.iter(f"{W}tr")).find(f"{W}trPr/{W}tblHeader") is not None
        widths = [int(column.get(f"{W}w", 0)) for column in table.iter(f"{W}gridCol")]
        # Widths are in 1/20 point; the text is 16 cm wide, and a digit is narrower than 4.5 points.
        assert sum(widths) <= 9_080
        for row in table.iter(f"{W}tr"):
            for width, cell in zip(widths, row.iter(f"{W}tc"), strict=True):
                longest = max(map(len, re.findall(r"[\d,.]+", text_of(cell))), default=0)
                assert longest * 4.5 * 20 <= width, text_of(cell)


def test_styles_come_from_a_replaceable_reference_document(
    word: zipfile.ZipFile, write: WritePaper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text has 10.5 points, tables 8, on A4; properties are at most abstract and subtitle."""
    assert {b'<w:sz w:val="21" />', b'<w:sz w:val="16" />'} <= font_sizes(word)
    assert b'<w:pgSz w:h="16838" w:w="11906" />' in word.read("word/document.xml")
    names = re.findall(r'name="([^"]+)"', word.read("docProps/custom.xml").decode())
    assert set(names) <= {"abstract", "subtitle"}
    monkeypatch.setattr(docx, "REFERENCE", reference := tmp_path / "other.docx")
    with zipfile.ZipFile(reference, "w") as changed:
        for name in word.namelist():
            changed.writestr(name, word.read(name).replace(b'w:val="21"', b'w:val="33"'))
    folder = write("Words.\n")
    assert b'<w:sz w:val="33" />' in font_sizes(word_of(folder))
    for damage in (b"", b"PK", reference.read_bytes()[:900]):
        reference.write_bytes(damage)
        with pytest.raises(RenderError, match=r"^templates/docx/reference.docx: is not a Word"):
            word_of(folder)


def test_word_documents_are_reproducible(write: WritePaper) -> None:
    paper = read_source(write(FIGURE), "p")
    text = convert(paper, [DOCX_FORMAT])[0]["docx"]
    content = render_docx(paper, text)
    assert content == render_docx(paper, text)
    times = {entry.date_time for entry in zipfile.ZipFile(io.BytesIO(content)).infolist()}
    assert times == {(1980, 1, 1, 0, 0, 0)}


def test_a_missing_picture_is_an_error(write: WritePaper) -> None:
    folder = write(FIGURE)
    paper = read_source(folder, "p")
    text = convert(paper, [DOCX_FORMAT])[0]["docx"]
    (folder / "figures" / "time.png").unlink()
    with pytest.raises(RenderError, match=r"p\.qmd: pandoc refused it .*time\.png"):
        render_docx(paper, text)
    folder = write(FIGURE.replace("figures/", "pictures/"))
    with pytest.raises(RenderError, match=r"p\.qmd:11: .*pictures/time\.png does not exist"):
        word_of(folder)
