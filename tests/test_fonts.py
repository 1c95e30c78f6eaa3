"""The figures' font: widths are those of the drawn outlines, and a PDF holds what draws."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.textpath import TextPath
from pypdf import PdfReader

from figures.drawing import style
from figures.drawing.fonts import FOLDER, ink_width, register
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


def test_a_glyph_outside_the_common_ones_is_drawn_by_the_whole_font() -> None:
    rare = "\N{CYRILLIC CAPITAL LETTER ZHE} \N{WHITE SMILING FACE}"
    pdf = render(replace(DRAWING, panels=(replace(DRAWING.panels[0], x_label=rare),)), "x").pdf
    text = PdfReader(io.BytesIO(pdf)).pages[0].extract_text()
    assert all(char in text for char in rare)


def test_text_is_set_in_fonts_of_the_project_alone() -> None:
    """Fonts stand in a PDF in the order of their paths, which must not depend on the machine."""
    register()
    for slant in ("normal", "italic", "oblique"):
        path = findfont(FontProperties(family=style.FAMILIES[0], style=slant))
        assert Path(path).parent == FOLDER
