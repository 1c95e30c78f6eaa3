"""Text of any script in any field comes out of every format: as it stands or as code points."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
import unicodedata
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pypdf import PdfReader

from figures.bars import Bars, BarSeries
from figures.canvas import Drawing
from figures.drawing.render import render
from report.records.record import Record
from report.records.store import write_record
from report.render.html import PageLinks, render_html
from report.render.latex import LatexTools, compile_latex, write_latex
from report.render.typst import render_typst
from tests import factory
from tests.latex import TOOLS, needs_latex
from tests.papers import compose

ROOT = Path(__file__).parents[2]
STUDY = "conv_scaling"
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


def every_text(mark: str) -> str:
    return f"{mark} {' '.join(TEXTS)}"


#: Fields of the data that the paper prints.
FIELDS = (
    *("model", "system", "version", "missing", "reported", "software"),
    *("author", "work", "title", "writer", "place", "abstract", "keyword", "prose"),
)


def _record() -> Record:
    layers = (factory.layer(4, every_text("Mlayer")),)
    failed = factory.case(2048, status="failed", reason=every_text("Mreason"))
    machine = factory.environment(operating_system=every_text("Msystem"))
    machine = msgspec.structs.replace(
        machine,
        cpu=msgspec.structs.replace(machine.cpu, model=every_text("Mmodel")),
        torch=msgspec.structs.replace(machine.torch, version=every_text("Mversion")),
        missing={"cpu.governor": every_text("Mmissing")},
    )
    network = factory.case(4, subject="network", layers=layers, time=factory.scattered(1e-3))
    return factory.record([*factory.layer_cases(), failed, network], machine)


def _write_data(data: Path) -> None:
    shutil.copytree(ROOT / "data" / "reported", data / "reported")
    shutil.copyfile(ROOT / "data" / "devices.yaml", data / "devices.yaml")
    write_record(_record(), data)
    path = data / "reported" / f"{STUDY}.json"
    reported: dict[str, Any] = json.loads(path.read_text("utf-8"))
    reported |= {"device": every_text("Mreported"), "software": every_text("Msoftware")}
    path.write_text(json.dumps(reported), "utf-8")
    source = (ROOT / "data" / "references.bib").read_text("utf-8")
    source = source.replace("{Manisha Goyal}", f"{{{every_text('Emile')} Mauthor}}", 1)
    source = source.replace("{Performance Study of a", f"{{{every_text('Mwork')} of a", 1)
    (data / "references.bib").write_text(source, "utf-8")


def _write_template(papers: Path) -> None:
    """The paper with texts where an author types: front matter and prose."""
    papers.mkdir()
    text = (ROOT / "templates" / "papers" / f"{STUDY}.qmd.j2").read_text("utf-8")
    # Set by a statement: a digit typed into prose would be refused.
    text = text.replace("---\n", f"---\n{{% set every = '{every_text('')}' | md %}}\n", 1)
    for old, new in {
        "title: .*": "title: |\n  Mtitle{{ every }}",
        "  - name: .*": "  - name: |\n      Mwriter{{ every }}\n    affiliation:",
        "    affiliation:": "    affiliation: |\n      Mplace{{ every }}",
        r"abstract: \|": "abstract: |\n  Mabstract{{ every }}",
        "keywords: .*": "keywords:\n  - |\n    Mkeyword{{ every }}",
        "# Introduction .*": "# Introduction {#sec-introduction}\n\nMprose{{ every }}",
    }.items():
        text = re.sub(f"^{old}$", new, text, count=1, flags=re.MULTILINE)
    (papers / f"{STUDY}.qmd.j2").write_text(text, "utf-8")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source folder of a paper with every text in every field."""
    folder = tmp_path_factory.mktemp("any")
    (folder / "data").mkdir()
    _write_data(folder / "data")
    _write_template(folder / "papers")
    compose(STUDY, folder / "data", folder / "papers", folder / "source")
    return folder / "source"


def _squeezed(text: str) -> str:
    """Without white space, hyphens and the order of direction, which readers of PDFs add."""
    return re.sub(r"[\s\u00ad\u200b\u202a-\u202c-]", "", unicodedata.normalize("NFC", text))


def _text_of(pdf: bytes) -> str:
    return "".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)


@pytest.fixture(scope="module")
def texts(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What a reader of each format sees; the PDFs are made once."""
    page = html.unescape(re.sub("<[^>]+>", "", render_html(source, STUDY, PageLinks())))
    found = {"html": page, "typst": _text_of(render_typst(source, STUDY))}
    if isinstance(TOOLS, LatexTools):
        target = tmp_path_factory.mktemp("tex")
        write_latex(source, STUDY, target)
        found["latex"] = _text_of(compile_latex(target, STUDY).pdf)
    yield {name: _squeezed(text) for name, text in found.items()}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("text", TEXTS)
def test_every_text_is_printed_or_named(texts: dict[str, str], text: str, form: str) -> None:
    expected = _squeezed(TEXTS[text][("html", "typst", "latex").index(form)])
    assert expected in texts[form] or expected[::-1] in texts[form]
    assert not re.search("[\x00-\x08\x1b\u2067\ue000\ufeff\uffff]", texts[form])


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_printed(texts: dict[str, str], field: str, form: str) -> None:
    assert f"M{field}" in texts[form]


def test_figures_have_a_glyph_for_every_text() -> None:
    names = (*TEXTS, "_hidden", "$1 and $2")
    series = tuple(BarSeries(name, (1.0,) * len(names)) for name in names[-3:])
    panel = Bars(names, series, "عربي 🚀", title="龙芯 l\u202er")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = _text_of(render(Drawing((panel,), wide=True, height=12), "any").pdf)
    for text in ("龙芯3A5000", "Байкал-М", "‹U+1F680›", "l‹U+202E›r", "$1and$2", "_hidden"):
        assert _squeezed(text) in _squeezed(drawn)
