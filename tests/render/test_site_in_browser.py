"""The site as a reader meets it: in chromium, from a folder, by keyboard, on every width."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from report.render.shell import Settings, script_of
from report.render.site import write_site
from tests.render import site_checks
from tests.render.conftest import drawn, page_of
from tests.render.site_checks import close, opened
from tests.render.test_render_page import BARE_ENTRY, FULL

needs_chromium = pytest.mark.skipif(
    not (site_checks.CHROMIUM and site_checks.DRIVER),
    reason="chromium and chromium-driver are not installed",
)

PAPER = "sample/index.html"
VALUE = {
    "name": "Rate", "printed": "2 GB/s", "interval": "[1, 3] GB/s", "level": "95 %", "n": 4,
    "formula": "a / b", "numbers": "4 / 2", "sources": ["sample/x.zip"], "series": [0],
}  # fmt: skip
SERIES = {
    "name": "time", "low": "1 s", "high": "2 s", "n": 4, "files": ["sample/x.zip"],
    "processes": [[0, 0, 0, 500], [0, 1, 700, 1000]],
}  # fmt: skip
SUPPLEMENT = """
# Supplement {.unnumbered #sec-supplement}

[The rate]{#v-rate} is told here, of @fig-time.
"""


def write_paper(source: Path, folder: Path) -> str:
    """A page with a number and a figure that open; returns its HTML."""
    page = page_of(source, "sample", folder)
    (folder / "values.json").write_text("{}", "utf-8")
    details = {"values": {"v-rate": VALUE}, "series": [SERIES], "records": {}}
    (folder / "details.js").write_text(script_of("details", details), "utf-8")
    made = drawn("time")
    series = [each.__dict__ for each in made.series]
    figure = {"place": "figures.time", "series": series, "svg": made.svg.decode()}
    (folder / "figures" / "time.js").write_text(script_of("figure", figure), "utf-8")
    return page


@pytest.fixture(scope="module")
def site(paper: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of one paper with a supplement, in a folder whose name needs escaping."""
    folder = tmp_path_factory.mktemp("a site")
    source = shutil.copytree(paper, tmp_path_factory.mktemp("source") / "sample")
    text = (source / "sample.qmd").read_text("utf-8")
    number = f"\nThe rate is [2 GB/s](#v-rate){{.value}}.\n\n```\n{'a long line ' * 30}\n```\n"
    (source / "sample.qmd").write_text(text + number + SUPPLEMENT, "utf-8")
    page = write_paper(source, folder / "sample")
    (folder / "reported").mkdir()
    (folder / "reported" / "sample.json").write_text("{}")
    full = replace(FULL, entry=BARE_ENTRY, records=FULL.records[:1], html=page, pdf=False)
    write_site([full], folder, Settings())
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with site_checks.chromium() as driver:
        yield driver


def show(browser: webdriver.Chrome, page: Path) -> None:
    site_checks.resize(browser, site_checks.WIDTHS[-1])
    browser.get(page.as_uri())


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    assert site_checks.dead_links(site) == []
    claims = site / "claims.html"
    text = claims.read_text("utf-8")
    claims.write_text(text + '<a href="no.html"></a>', "utf-8")
    assert site_checks.dead_links(site) == ["claims.html: no.html"], "the check sees a dead link"
    claims.write_text(text, "utf-8")


@needs_chromium
def test_pages_fit_every_screen_without_a_complaint(browser: webdriver.Chrome, site: Path) -> None:
    axe = site_checks.axe_core()
    pages = sorted(page.relative_to(site).as_posix() for page in site.rglob("*.html"))
    assert len(pages) == 7
    root = site.as_uri()
    faults = {
        name: site_checks.faults(browser, (site / name).as_uri(), root, axe) for name in pages
    }
    assert {name: found for name, found in faults.items() if found} == {}
    if axe is None:
        pytest.skip("axe-core cannot be had: npm or its registry is not there; all else passed")


@needs_chromium
@pytest.mark.parametrize(
    ("opener", "expected"),
    [
        ("a.value[href$=v-rate]", ["2 GB/s", "[1, 3] GB/s at 95 %", "a / b", "2 processes"]),
        ("a.reference[href='#tbl-work']", ["Batch", "Go there"]),
        ("#fig-time a.picture", ["SVG", "PDF", "Forward", "figures.time"]),
        ("button.find", ["Search"]),
    ],
)
def test_what_opens_by_a_key_closes_by_another_and_gives_the_focus_back(
    browser: webdriver.Chrome, site: Path, opener: str, expected: list[str]
) -> None:
    show(browser, site / PAPER)
    browser.find_element(By.CSS_SELECTOR, opener).send_keys(Keys.ENTER)
    text = opened(browser).text
    assert all(words in text for words in expected), text
    close(browser)
    assert browser.execute_script("return document.activeElement.matches(arguments[0])", opener)
    assert [each["message"] for each in browser.get_log("browser")] == []


@needs_chromium
def test_an_opened_figure_says_its_values_and_hides_a_series(
    browser: webdriver.Chrome, site: Path
) -> None:
    show(browser, site / PAPER)
    browser.find_element(By.CSS_SELECTOR, "#fig-time a.picture").send_keys(Keys.ENTER)
    dialog = opened(browser)
    figure = dialog.find_element(By.CSS_SELECTOR, "svg.drawn")
    browser.execute_script("arguments[0].focus()", figure)
    figure.send_keys(Keys.ARROW_RIGHT)
    words = dialog.find_element(By.CSS_SELECTOR, "output")
    assert words.text == "Forward. time (s): 3.5. Batch: 16."
    hidden = "return document.querySelectorAll('[id^=series-][visibility=hidden]').length"
    dialog.find_element(By.CSS_SELECTOR, ".series input").click()
    assert browser.execute_script(hidden) > 0


@needs_chromium
def test_the_search_finds_a_section_from_another_page(
    browser: webdriver.Chrome, site: Path
) -> None:
    assert site_checks.not_found(browser, site, site.as_uri()) == []
    browser.find_element(By.CSS_SELECTOR, ".results a").click()
    WebDriverWait(browser, 20).until(lambda b: PAPER in b.current_url)
