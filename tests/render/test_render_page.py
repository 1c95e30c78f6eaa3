"""The page of the sample and the pages over all studies, as a browser would read them."""

from __future__ import annotations

import html
import itertools
import re
from pathlib import Path

import pytest

from report.render.html import Publication
from report.render.pandoc import TEMPLATES
from report.render.search import index_of_paper
from report.render.shell import PAPER_SCRIPTS, Settings
from report.render.site import Paper, record_pages, render_page
from tests.render.conftest import page_of
from tests.render.site_checks import Page


@pytest.fixture(scope="module")
def folder(paper: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("html") / "sample"
    page_of(paper, "sample", target, Publication(Settings(), measured="2025-01-02"))
    return target


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page((folder / "index.html").read_text("utf-8"))


def test_ids_are_unique_and_every_link_in_the_page_leads_somewhere(page: Page) -> None:
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    targets = {href[1:] for href in page.values("href") if href.startswith("#")}
    assert len(targets) > 15
    assert targets <= set(ids)


def test_every_image_has_alternative_text_a_size_and_a_file(page: Page, folder: Path) -> None:
    images = page.all("img")
    assert len(images) == 4
    for image in images:
        assert len(image["alt"]) > 10
        assert (image["width"], image["height"]) == ("336", "221")
        assert (folder / image["src"]).is_file()


def test_landmarks_and_headings(page: Page) -> None:
    assert len(page.all("main")) == len(page.all("h1")) == 1
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.all("html")[0]["lang"] == "en"
    assert page.elements[[tag for tag, _ in page.elements].index("body") + 1][1]["class"] == "skip"


def test_the_search_finds_the_words_of_formulas(page: Page) -> None:
    """In one line and without layout."""
    entries = index_of_paper("A paper", "An abstract", "a.html", page.text)
    texts = " ".join(entry["text"] for entry in entries if entry["kind"] == "Section")
    assert "their ratio I = W / Q is the arithmetic intensity" in texts
    assert "I_ridge = P_peak/beta." in texts
    assert "\\frac" not in texts


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_the_contrast_of_wcag_aa(scheme: str) -> None:
    css = (TEMPLATES / "html/assets/style.css").read_text("utf-8")
    pairs = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", css)
    shades = {name: luminance(pair[scheme == "dark"]) for name, *pair in pairs}
    for front in ("ink", "quiet", "accent", "note", "tip", "warning", "important", "caution"):
        for back in ("paper", "soft"):
            dark, light = sorted((shades[front], shades[back]))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (front, back)


def test_the_paper_is_cited_by_its_title_its_people_and_its_data(folder: Path, page: Page) -> None:
    entry = (folder / "citation.bib").read_text("utf-8")
    assert "title = {{Work and memory of a convolutional layer: a sample paper}}" in entry
    assert r"author = {{Ada Example} and {Böhm \& Sons}}" in entry
    assert "year = {2025}" in entry
    assert "@misc{sample," in html.unescape(page.text)


def test_no_script_or_style_stands_in_a_page(page: Page) -> None:
    assert not page.values("style") and not page.values("onclick") and not page.all("style")
    assert all("src" in script for script in page.all("script"))
    assert len(page.all("script")) == len(PAPER_SCRIPTS) + 1


ENTRY = {
    "title": "Work & memory", "abstract": "One. Two.", "devices": ["CPU", "GPU"],
    "measured": "2025-01-02", "imported": [], "question": "How <fast>?",
    "headline": [{"label": "Rate", "printed": "2 GB/s", "interval": "[1, 3]", "anchor": "v-rate"}],
    "figure": ["figures/time.svg", "Time", "fig-time"],
}  # fmt: skip
BARE_ENTRY = {
    "title": "Other", "abstract": "Three.", "devices": [], "measured": None, "imported": [],
    "question": "", "headline": [], "figure": None,
}  # fmt: skip
CLAIM = {
    "sentence": "@fig-time has *$2^{3}$*, [4 [3, 5]](#v-a){.value} (@tbl-b).",
    "verdict": "refuted",
    "because": "1",
}
AUDIT = {
    "place": "Table I", "printed": 0.45, "text": "0.45", "recomputed": 0.5, "unit": "1",
    "formula": "a / b", "verdict": "differs", "finding": "differs",
}  # fmt: skip
RECORD = {
    "file": "sample/20250102T000000Z-cpu-0a.zip", "origin": "", "started": "2025-01-02T00:00:00Z",
    "plan": "full", "machine": "CPU", "commit": None, "clean": None, "ok": 3,
    "others": {"out of memory": 1}, "used": False, "why": "not used, older", "altered": [],
    "facts": [["Device", "CPU <2>"]], "factors": [["batch", "1, 2"]],
    "failures": [{"status": "out of memory", "reason": "8 GB", "count": "1", "cases": "batch 2"}],
}  # fmt: skip
MACHINE = {
    "key": "cpu", "label": "CPU", "facts": [["Size", "2 cores"], ["Device", "CPU <1>"]],
    "ceilings": {"Matrix product": "", "Copy": "9 GB/s"}, "measured": "2025-01-02",
}  # fmt: skip
OLDER = {**MACHINE, "measured": "2025-01-01", "ceilings": {"Matrix product": "5", "Copy": "1"}}
FULL = Paper(
    "sample",
    ENTRY,
    {"claims": {"so": CLAIM, "not-said": {**CLAIM, "sentence": ""}}, "audits": [AUDIT]},
    (RECORD, {**RECORD, "origin": "measured by Ada", "started": ""}),
    (MACHINE, OLDER),
    pdf=True,
    reported=True,
)
BARE = Paper("other", BARE_ENTRY)

#: What each page over all studies says of these two.
OVER_ALL = {
    "index.html": (
        "Work &amp; memory", "How &lt;fast&gt;?", "2 GB/s", "[1, 3]", "2 refuted",
        "Measured on CPU; GPU; newest record of 2025-01-02", "nothing measured yet",
    ),
    "claims.html": (">The figure has 2^3, 4 [3, 5].</td>", "Not said", "states no claims"),
    "reported.html": ("0.45", "0.5", "a / b", "differs", 'href="reported/sample.json"'),
    "machines.html": (
        '2 cores</td><td class="long">CPU &lt;1&gt;', "9 GB/s", ">5<", "sample</a> 2025-01-02",
    ),
    "records.html": (
        "2025-01-02 00:00:00 UTC", "1 out of memory", "not used, older", "measured by Ada",
        "not published",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OVER_ALL)
def test_a_page_over_all_studies(name: str) -> None:
    page = Page(render_page(name, [FULL, BARE], Settings(licence="CC <BY>")))
    assert len(page.all("main")) == 1
    assert [words for words in (*OVER_ALL[name], "CC &lt;BY&gt;") if words not in page.text] == []
    assert page.values("style") == []
    labels = page.values("aria-label")
    assert len(labels) == len(set(labels))


def test_a_record_has_a_page() -> None:
    text = dict(record_pages([FULL], Settings()))["records/20250102T000000Z-cpu-0a.html"]
    assert Page(text).all("main")
    assert all(each in text for each in ("CPU &lt;2&gt;", "8 GB", "batch 2", "not used, older"))
    assert '.zip" download' not in text, "the site carries the records in use alone"
