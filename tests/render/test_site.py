"""The site of all papers: each page as HTML, and in chromium on all screens and by keyboard."""

import html
import itertools
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from report.render.html import Publication
from report.render.shell import Settings, script_of
from report.render.site import (
    SitePaper,
    content_of_page,
    interval_picture,
    machines_of,
    write_site,
)
from tests import factory
from tests.render import site_checks
from tests.render.conftest import drawn, html_of
from tests.render.site_checks import Page

needs_chromium = pytest.mark.skipif(
    not (site_checks.CHROMIUM and site_checks.DRIVER),
    reason="chromium and chromium-driver are not installed",
)

SETTINGS = Settings(licence="CC <BY>")
PAPER = "sample/index.html"
#: Text added to the sample: a value with details, a long line, two tables and a supplement.
ADDED = f"""
The rate is [2 GB/s](#v-rate){{.value}} for maps of 3 × 3.

```
{"a long line " * 30}
```

| Time | Rate |
|-----:|-----:|
| 1 | 2 |

| Size | Rate |
|-----:|-----:|
| 1 | 2 |

# Supplement {{.unnumbered #sec-supplement}}

[The rate]{{#v-rate}} is explained here, of @fig-time.
"""
#: Details of a value and of a measured series, which dialogs show.
VALUE = {
    "name": "Rate", "printed": "2 GB/s", "interval": "[1, 3] GB/s at 95 %", "n": 4,
    "formula": "a / b", "numbers": "4 / 2", "sources": ["sample/x.json"], "series": [0],
}  # fmt: skip
SERIES = {
    "name": "time", "low": "1 s", "high": "2 s", "n": 4, "files": ["sample/x.json"],
    "processes": [[0, 0, 0, 500], [0, 1, 700, 1000]],
}  # fmt: skip
#: A paper on the first page of the site, and a paper without measurements.
ENTRY = {
    "title": "Work & memory", "abstract": "One. Two.", "devices": ["CPU", "GPU"],
    "measured": "2025-01-02", "imported": [], "question": "How <fast>?",
    "takeaway": "It is <slow>.", "figure": ["figures/time.svg", "Time", "fig-time"],
}  # fmt: skip
EMPTY_ENTRY = {
    **ENTRY, "title": "Other", "devices": [], "measured": None, "question": "", "takeaway": "",
    "figure": None,
}  # fmt: skip
CLAIM = {
    "sentence": "@fig-time has *$2^{3}$*, [4 [3, 5]](#v-a){.value} (@tbl-b).",
    "verdict": "refuted",
    "because": "1",
    "compared": [{"number": 2.0, "interval": [1.0, 3.0], "above": None, "below": 1.5}],
}
AUDIT = {
    "place": "Table I", "printed": 0.45, "text": "0.45", "recomputed": 0.5, "unit": "1",
    "formula": "a / b", "verdict": "differs", "finding": "differs",
}  # fmt: skip
RECORD = {
    "file": "sample/20250102T000000Z-cpu-0a.json", "origin": "", "started": "2025-01-02T00:00:00Z",
    "plan": "full", "machine": "CPU", "commit": None, "clean": None, "ok": 3,
    "others": {"out of memory": 1}, "used": False, "why": "not used, older", "altered": [],
    "files": [],
}  # fmt: skip
IMPORTED = {
    **RECORD, "file": "sample/b.json", "origin": "measured by Ada", "started": "", "used": True,
    "files": ["a.csv"],
}  # fmt: skip
MACHINE = {
    "id": "cpu", "label": "CPU", "facts": [["Size", "2 cores"], ["Device", "CPU <1>"]],
    "ceilings": {"Matrix product": "", "Copy": "9 GB/s"}, "measured": "2025-01-02",
}  # fmt: skip
#: The same machine in an older run, and another machine with the same label.
OLDER = {**MACHINE, "measured": "2025-01-01", "ceilings": {"Matrix product": "5", "Copy": "1"}}
TWIN = {**MACHINE, "id": "twin"}

#: Page → texts that the page must contain.
TEXTS = {
    PAPER: ("@misc{sample,", 'width="336" height="221"', "3\xa0×\xa03."),
    "other/index.html": (),
    "index.html": (
        "Work & memory", "How <fast>?", "It is <slow>.", "2 refuted",
        "Measured on CPU; GPU; newest record of 2025-01-02", "nothing measured yet",
    ),
    "claims.html": (
        # The interval from 1 to 3 spans 80 % of the line; the claim holds below 1.5.
        '<rect x="0.0" width="30.0"', '<line x1="10.0" x2="90.0"', '<circle cx="50.0"',
        ">The figure has 2^3, 4 [3, 5].</a></td>", "Not said", "states no claims",
    ),
    "atlas.html": ("Replicated on 2", "Slower <1>", '"letter C">C<', "<li>CPU 2</li>"),
    "reported.html": ("0.45", "0.5", "a / b", "1 differing", 'href="reported/sample.json"'),
    "machines.html": (
        '2 cores</td><td class="long">CPU <1>', "9 GB/s", ">5<", "</a>, 2025-01-02",
        ">CPU (first run of 2025-01-01)<", ">CPU (first run of 2025-01-02)<",
    ),
    "records.html": (
        "2025-01-02 00:00:00 UTC", "1 out of memory", "not used, older", "measured by Ada",
        "not published", 'b.json" download', 'sample/records/b/a.csv" download',
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def site(paper: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a site of a full and an empty paper, in a folder whose name needs escaping."""
    folder = tmp_path_factory.mktemp("a site")
    source = shutil.copytree(paper, tmp_path_factory.mktemp("source") / "sample")
    with (source / "sample.qmd").open("a", encoding="utf-8") as text:
        text.write(ADDED)
    paper_folder = folder / "sample"
    publication = Publication(SETTINGS, measured="2025-01-02", key_figure="fig-time")
    page = html_of(source, "sample", paper_folder, publication)
    drawing = drawn("time")
    series = [item.__dict__ for item in drawing.series]
    figure = {"place": "figures.time", "series": series, "svg": drawing.svg.decode()}
    details = {"values": {"v-rate": VALUE}, "series": [SERIES], "records": {}}
    downloads = ("values.json", "sample.pdf", "records/b.json", "records/b/a.csv")
    factory.write_files(paper_folder, {
        "figures/time.js": script_of("figure", figure),
        "figures/card.svg": drawing.svg,
        "details.js": script_of("details", details),
        **dict.fromkeys(downloads, "{}"),
    })  # fmt: skip
    factory.write_files(folder, {"reported/sample.json": "{}"})
    shutil.copytree(paper_folder, folder / "other")
    values = {
        "claims": {"so": CLAIM, "not-said": {**CLAIM, "sentence": ""}}, "audits": [AUDIT],
        "headline": [{"id": "rate", "printed": "2 GB/s", "anchor": "v-rate"}],
        "values": {"rate": {"n": 4, "sources": ["sample/x.json"]}},
    }  # fmt: skip
    records, machines = (RECORD, IMPORTED), (MACHINE, OLDER, TWIN)
    claims = [{"title": "Slower <1>", "letters": ["A", "C"]}]
    atlas = {"machines": ["CPU 1", "CPU 2"], "claims": claims, "line": "Replicated on 2."}
    paper_page = (ENTRY, values, records, machines, content_of_page(page))
    full = SitePaper("sample", *paper_page, pdf=True, reported=True, atlas=atlas)
    write_site([full, SitePaper("other", EMPTY_ENTRY, atlas={"claims": []})], folder, SETTINGS)
    return folder


@pytest.mark.parametrize("name", TEXTS)
def test_a_page_is_valid_and_contains_its_texts(site: Path, name: str) -> None:
    page = Page((site / name).read_text("utf-8"))
    text = html.unescape(page.text)
    assert [words for words in (*TEXTS[name], "CC <BY>") if words not in text] == []
    assert "<fast>" not in page.text
    assert len(page.all("main")) == len(page.all("h1")) == 1
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    for unique in (page.values("id"), page.values("aria-label")):
        assert len(unique) == len(set(unique))
    assert all(len(image["alt"]) > 3 for image in page.all("img"))
    # The content security policy of the page forbids inline styles and scripts.
    assert not page.values("style", "onclick") and not page.all("style")
    assert all("src" in script for script in page.all("script"))


def test_the_key_figure_appears_once_after_the_abstract(site: Path) -> None:
    page = (site / PAPER).read_text("utf-8")
    positions = [page.index(f'id="{id}"') for id in ("abstract", "fig-time", "sec-model")]
    assert positions == sorted(positions) and page.count('id="fig-time"') == 1


def test_a_claim_whose_numbers_are_all_equal_has_no_picture() -> None:
    zero_below_zero = {"number": 0.0, "interval": None, "above": None, "below": 0.0}
    assert interval_picture([zero_below_zero]) is None


def test_a_site_of_one_report_names_no_roles_and_no_paper_beside_machines(tmp_path: Path) -> None:
    record = {**IMPORTED, "origin": "", "why": "used as cpu machine, the newest run"}
    report = SitePaper("sample", ENTRY, {"summary": ""}, (record,), (MACHINE,))
    write_site([report], tmp_path, SETTINGS)
    assert ">the newest run<" in (tmp_path / "records.html").read_text("utf-8")
    assert "<td>2025-01-02</td>" in (tmp_path / "machines.html").read_text("utf-8")


def test_machines_are_listed_by_number() -> None:
    machines = [{**MACHINE, "id": label, "label": label} for label in ("CPU 10", "CPU 2²")]
    listed = machines_of([SitePaper("sample", ENTRY, machines=machines)])
    assert [machine["label"] for machine in listed] == ["CPU 2²", "CPU 10"]


def test_the_atlas_lists_papers_with_claims_about_machines_only(site: Path) -> None:
    assert (site / "atlas.html").read_text("utf-8").count("<section") == 1


def test_every_link_within_the_site_works(site: Path) -> None:
    assert site_checks.dead_links(site) == []
    claims = site / "claims.html"
    text = claims.read_text("utf-8")
    claims.write_text(text + '<a href="no.html"></a>', "utf-8")
    assert site_checks.dead_links(site) == ["claims.html: no.html"], "the check reports a dead link"
    claims.write_text(text, "utf-8")


def test_the_citation_has_title_authors_and_year(site: Path) -> None:
    entry = (site / "sample" / "citation.bib").read_text("utf-8")
    assert "title = {{Work and memory of a convolutional layer: a sample paper}}" in entry
    assert r"author = {{Ada Example} and {Böhm \& Sons}}" in entry
    assert "year = {2025}" in entry


def test_the_search_index_contains_captions_and_formulas_as_text(site: Path) -> None:
    """A formula is one line without LaTeX commands."""
    page = (site / PAPER).read_text("utf-8")
    sections = content_of_page(page)["sections"]
    assert any(name.startswith("Figure 1. Time of one call over") for _, _, name, _ in sections)
    texts = " ".join(text for kind, _, _, text in sections if kind == "Section")
    assert "their ratio I = W / Q is the arithmetic intensity" in texts
    assert "I_ridge = P_peak/beta." in texts
    assert "\\frac" not in texts


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with site_checks.chromium() as driver:
        yield driver


def open_dialog(browser: webdriver.Chrome) -> WebElement:
    """Wait for an open dialog and return the dialog."""
    wait = WebDriverWait(browser, 20)
    return wait.until(lambda page: page.find_element(By.CSS_SELECTOR, "dialog[open]"))


@needs_chromium
def test_a_table_slightly_wider_than_the_text_extends_into_the_margin(
    browser: webdriver.Chrome, site: Path
) -> None:
    """A table that fits in the margin must not return to the text, since it would flicker."""
    site_checks.resize(browser, 1440)
    browser.get((site / PAPER).as_uri())
    count_moves = """
    const [done] = arguments, table = document.querySelector("figure.table > .scroll");
    let moves = 0;
    new MutationObserver(() => { moves += 1; }).observe(table, { attributes: true });
    table.querySelector("td").textContent = "x".repeat(99);
    setTimeout(() => done([moves, table.clientWidth > table.parentElement.clientWidth]), 500);
    """
    moves, is_wider = browser.execute_async_script(count_moves)
    assert is_wider and moves < 10


@needs_chromium
def test_on_a_phone_all_links_are_in_one_line_and_the_focused_link_is_visible(
    browser: webdriver.Chrome, site: Path
) -> None:
    site_checks.resize(browser, 390)
    browser.get((site / "index.html").as_uri())
    links = browser.find_elements(By.CSS_SELECTOR, "header.site li a")
    browser.execute_script("arguments[0].focus()", links[-1])
    assert len({link.rect["y"] for link in links}) == 1
    end, tools = links[-1].rect, browser.find_element(By.CSS_SELECTOR, ".tools").rect
    assert end["x"] + end["width"] < tools["x"]


@needs_chromium
def test_pages_have_no_fault_on_any_screen(browser: webdriver.Chrome, site: Path) -> None:
    axe = site_checks.axe_core()
    root, faults_by_page = site.as_uri(), {}
    for name in TEXTS:
        faults_by_page[name] = site_checks.faults(browser, (site / name).as_uri(), root, axe)
    assert faults_by_page == {name: [] for name in TEXTS}
    if axe is None:
        pytest.skip("axe-core needs npm and the npm registry; all other checks passed")


@needs_chromium
@pytest.mark.parametrize(("page", "opener", "expected"), [
    (PAPER, "a.value[href$=v-rate]", ["2 GB/s", "[1, 3] GB/s at 95 %", "a / b", "2 processes"]),
    ("index.html", "a.value", ["2 GB/s", "[1, 3] GB/s at 95 %", "a / b", "2 processes"]),
    (PAPER, "a.reference[href='#tbl-work']", ["Batch", "Go there"]),
    (PAPER, "#fig-time a.picture", ["SVG", "PDF", "Forward", "figures.time"]),
    (PAPER, "button.find", ["Search"]),
])  # fmt: skip
def test_dialogs_open_and_close_by_key_and_return_the_focus(
    browser: webdriver.Chrome, site: Path, page: str, opener: str, expected: list[str]
) -> None:
    browser.get((site / page).as_uri())
    browser.find_element(By.CSS_SELECTOR, opener).send_keys(Keys.ENTER)
    text = open_dialog(browser).text
    assert all(words in text for words in expected), text
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    WebDriverWait(browser, 20).until(lambda b: not b.find_elements(By.CSS_SELECTOR, "dialog"))
    assert browser.execute_script("return document.activeElement.matches(arguments[0])", opener)
    assert [entry["message"] for entry in browser.get_log("browser")] == []


@needs_chromium
def test_the_button_of_a_verdict_filters_claims(browser: webdriver.Chrome, site: Path) -> None:
    """Two claims are refuted; a script gives the first another verdict.  Rows are cards."""
    site_checks.resize(browser, 390)
    browser.get((site / "claims.html").as_uri())
    browser.execute_script("document.querySelector('tr.claim .verdict').classList = 'verdict none'")
    rows = browser.find_elements(By.CSS_SELECTOR, "tr.claim")
    for visible in (1, 2):  # the button filters, and then shows all claims again
        browser.find_element(By.CSS_SELECTOR, "button.verdict").send_keys(Keys.ENTER)
        assert sum(row.is_displayed() for row in rows) == visible


@needs_chromium
def test_an_opened_figure_prints_values_of_points(browser: webdriver.Chrome, site: Path) -> None:
    browser.get((site / PAPER).as_uri())
    browser.find_element(By.CSS_SELECTOR, "#fig-time a.picture").send_keys(Keys.ENTER)
    dialog = open_dialog(browser)
    figure = dialog.find_element(By.CSS_SELECTOR, "svg.drawn")
    browser.execute_script("arguments[0].focus()", figure)
    figure.send_keys(Keys.ARROW_RIGHT)
    output = dialog.find_element(By.CSS_SELECTOR, "output")
    assert output.text == "Forward. time (s): 3.5. Batch: 16."
    count_hidden = "return document.querySelectorAll('[id^=series-][visibility=hidden]').length"
    dialog.find_element(By.CSS_SELECTOR, ".series input").click()
    assert browser.execute_script(count_hidden) > 0


@needs_chromium
def test_the_search_finds_sections_of_other_pages(browser: webdriver.Chrome, site: Path) -> None:
    browser.get((site / "claims.html").as_uri())
    browser.find_element(By.CSS_SELECTOR, "body").send_keys("/")
    wait = WebDriverWait(browser, 20)
    wait.until(lambda page: page.execute_script("return ridgepoint.index !== undefined"))
    status = browser.find_element(By.CSS_SELECTOR, ".search [role=status]")
    for query, count in (("uestions", "Nothing"), ("quest", "1 found")):  # at the start of a word
        browser.switch_to.active_element.send_keys(Keys.CONTROL, "a", Keys.NULL, query)
        assert status.text.startswith(count)
    wait.until(lambda page: page.find_element(By.CSS_SELECTOR, ".results a")).click()
    wait.until(lambda page: page.current_url.endswith(f"{PAPER}#sec-questions"))
    assert browser.find_element(By.ID, "sec-questions").is_displayed()
