"""Text of any script in any field comes out of every format: as it stands or as code points."""

from __future__ import annotations

import html
import io
import re
import shutil
import unicodedata
import warnings
from pathlib import Path

import pytest
from pypdf import PdfReader

from figures.characters import visible
from figures.panels import Bars, BarSeries, Drawing
from figures.render import render
from report.paper.tables import Column, Table, to_latex, to_markdown
from report.render.latex import compile_latex
from report.text.escape import markdown
from tests.render.conftest import LACKING, needs_latex, page_of, tex_of, typst_pdf

LONG = "0123456789abcdef" * 6
FORMATS = ("html", "typst", pytest.param("latex", marks=needs_latex))

#: A text of the data, and what the page, Typst and LaTeX print for it.
TEXTS = {
    "龙芯 3A5000": ("龙芯 3A5000", "龙芯 3A5000", "‹U+9F99 U+82AF› 3A5000"),
    "Байкал-М": ("Байкал-М", "Байкал-М", "‹U+0411 U+0430 U+0439 U+043A U+0430 U+043B›-‹U+041C›"),
    "عربي": ("عربي", "عربي", "‹U+0639 U+0631 U+0628 U+064A›"),
    "हिन्दी": ("हिन्दी", "हिन्दी", "‹U+0939 U+093F U+0928 U+094D U+0926 U+0940›"),
    "한국 ไทย": ("한국 ไทย", "한국 ไทย", "‹U+D55C U+AD6D› ‹U+0E44 U+0E17 U+0E22›"),
    "r🚀s": ("r🚀s", "r‹U+1F680›s", "r‹U+1F680›s"),
    "👩\u200d💻": ("👩\u200d💻", *["‹U+1F469 U+200D U+1F4BB›"] * 2),
    "e\u0301q\u0308": ("e\u0301q\u0308", "e\u0301q\u0308", "éq‹U+0308›"),
    "Ωmega ﬁne": ("Ωmega ﬁne", "Ωmega ﬁne", "Ωmega fine"),
    "l\u202er": ("l‹U+202E›r",) * 3,
    "l\u2067r": ("l‹U+2067›r",) * 3,
    "n\x00l": ("n‹U+0000›l",) * 3,
    "n\x1b[1m": ("n‹U+001B›[1m",) * 3,
    "p\ue000p": ("p‹U+E000›p",) * 3,
    "f\uffff\ufefff": ("f‹U+FFFF U+FEFF›f",) * 3,
    LONG: (LONG, LONG, LONG),
}


EVERY = " ".join(TEXTS)
#: Where the texts stand: what authors type, and what tables take from the data.
FIELDS = ("title", "writer", "place", "abstract", "keyword", "prose", "caption", "cell")
TABLE = Table("tbl-x", (Column("A"),), ((f"Mcell {EVERY}",),))
PAPER = f"""---
title: |
  Mtitle {markdown(EVERY)}
author:
  - name: |
      Mwriter {markdown(EVERY)}
    affiliation: |
      Mplace {markdown(EVERY)}
abstract: |
  Mabstract {markdown(EVERY)}
keywords:
  - |
    Mkeyword {markdown(EVERY)}
bibliography: references.bib
print-style: ieee
---

Mprose {markdown(EVERY)}

{to_markdown(TABLE, markdown(f"Mcaption {EVERY}"))}
"""


def _squeezed(text: str) -> str:
    """Without white space, hyphens and the order of direction, which readers of PDFs add."""
    return re.sub(r"[\s\u00ad\u200b\u202a-\u202c-]", "", unicodedata.normalize("NFC", text))


def _text_of(pdf: bytes) -> str:
    return "".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)


@pytest.fixture(scope="module")
def texts(paper: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a reader of each format sees; the PDFs are made once."""
    source = tmp_path_factory.mktemp("any")
    (source / "p.qmd").write_text(visible(PAPER), "utf-8")
    (source / "tables").mkdir()
    (source / "tables" / "tbl-x.tex").write_text(to_latex(TABLE), "utf-8")
    shutil.copyfile(paper / "references.bib", source / "references.bib")
    page = html.unescape(re.sub("<[^>]+>", "", page_of(source)))
    found = {"html": page, "typst": _text_of(typst_pdf(source))}
    if not LACKING:
        found["latex"] = _text_of(compile_latex(tex_of(source).parent, "p")[0])
    return {name: _squeezed(text) for name, text in found.items()}


@pytest.mark.parametrize("form", FORMATS)
def test_every_text_is_printed_or_named_in_every_field(texts: dict[str, str], form: str) -> None:
    shown = texts[form].casefold()  # captions are small capitals in print
    assert [field for field in FIELDS if f"m{field}" not in shown] == []
    for each in TEXTS.values():
        expected = _squeezed(each[("html", "typst", "latex").index(form)])
        assert expected in texts[form] or expected[::-1] in texts[form]
    assert not re.search("[\x00-\x08\x1b\u2067\ue000\ufeff\uffff]", texts[form])


def test_figures_have_a_glyph_for_every_text() -> None:
    names = (*TEXTS, "_hidden", "$1 and $2")
    series = tuple(BarSeries(name, (1.0,) * len(names)) for name in names[-3:])
    panel = Bars(names, series, "عربي 🚀", title="龙芯 l\u202er")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = _text_of(render(Drawing((panel,), wide=True, height=12), "any").pdf)
    for text in ("龙芯3A5000", "Байкал-М", "‹U+1F680›", "l‹U+202E›r", "$1and$2", "_hidden"):
        assert _squeezed(text) in _squeezed(drawn)
