"""The figures' font: widths are those of the drawn outlines, and a PDF holds what draws."""

from __future__ import annotations

import io
from typing import Any

import pytest
from fontTools import subset
from fontTools.ttLib import TTFont
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.textpath import TextPath
from pypdf import PdfReader

from figures.drawing import style
from figures.drawing.fonts import families, ink_width, only_glyphs
from figures.drawing.render import render
from tests.test_figures import DRAWING


@settings(deadline=None, max_examples=60)
@given(st.text("abfgijlmwAWQR0123456789,.%µ×−·()_\N{NO-BREAK SPACE}", max_size=12))
def test_a_width_is_that_of_the_outlines(text: str) -> None:
    font = FontProperties(family=str(style.RC["font.family"]), size=6.5)
    exact = TextPath((0, 0), text, prop=font).get_extents().x1 if text.split() else 0.0
    assert ink_width(text, 6.5) == pytest.approx(exact, abs=1e-6)


def fonts_of(pdf: bytes) -> list[TTFont]:
    fonts = PdfReader(io.BytesIO(pdf)).pages[0]["/Resources"]["/Font"].values()  # type: ignore[index]
    files = (
        font.get_object()["/DescendantFonts"][0].get_object()["/FontDescriptor"].get_object()
        for font in fonts
    )
    return [TTFont(io.BytesIO(file["/FontFile2"].get_object().get_data())) for file in files]


def test_a_pdf_holds_the_glyphs_and_no_rules_of_setting() -> None:
    (font,) = fonts_of(render(DRAWING, "x").pdf)
    assert {"glyf", "loca", "head", "hhea", "hmtx", "maxp"} <= set(font.keys())
    assert not {"GSUB", "GPOS", "GDEF", "kern", "MATH"} & set(font.keys())


def test_words_can_still_be_read_out_of_a_pdf() -> None:
    text = PdfReader(io.BytesIO(render(DRAWING, "x").pdf)).pages[0].extract_text()
    assert "Batch size" in text
    assert "Time (ms)" in text


def test_others_get_whole_fonts_from_font_tools() -> None:
    load_font = subset.load_font
    with pytest.raises(RuntimeError), only_glyphs():
        assert subset.load_font is not load_font
        raise RuntimeError
    assert subset.load_font is load_font


def test_the_layout_is_computed_once_for_both_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[object] = []
    execute = ConstrainedLayoutEngine.execute

    def counted(engine: ConstrainedLayoutEngine, figure: Any) -> Any:
        computed.append(figure)
        return execute(engine, figure)

    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", counted)
    render(DRAWING, "x")
    assert len(computed) == 1


def test_only_texts_that_need_it_are_set_in_further_typefaces() -> None:
    assert families(["Batch × 64", "µs\nλ"]) == style.FAMILIES[:1]
    assert families(["Batch", "ส่ง"]) == style.FAMILIES
