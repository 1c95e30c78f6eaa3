"""The site as a reader meets it: in chromium, from a folder, by keyboard, on every width."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from report.render.html import PageLinks, write_page
from report.render.settings import Settings
from report.render.shell import OVERVIEWS, script_of
from report.render.site import Entry, Paper, write_site

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="chromium and chromium-driver are not installed"
)

PAGES = (*OVERVIEWS, "sample/index.html")
VALUE = {
    "name": "Rate", "printed": "2 GB/s", "interval": "[1, 3] GB/s", "level": "95 %", "n": 4,
    "formula": "a / b", "numbers": "4 / 2", "sources": ["sample/x.json"], "series": [0],
}  # fmt: skip
SERIES = {
    "name": "time", "low": "1 s", "high": "2 s", "n": 4, "files": ["sample/x.json"],
    "processes": [[0, 0, 0, 500], [0, 1, 700, 1000]],
}  # fmt: skip


@pytest.fixture(scope="module")
def site(paper: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of one paper, in a folder whose name needs escaping, with a number that opens."""
    folder = tmp_path_factory.mktemp("a site")
    page = write_page(paper, "sample", folder / "sample", PageLinks(root="../"))
    number = '<p><a class="value" href="#v-rate">2 GB/s</a></p><p id="v-rate">Rate</p></article>'
    page.write_text(page.read_text("utf-8").replace("</article>", number), "utf-8")
    details = {"values": {"v-rate": VALUE}, "series": [SERIES], "records": {}}
    (folder / "sample" / "details.js").write_text(script_of("details", details), "utf-8")
    entry = Entry("sample", "Sample", "Of a layer.", "sample/index.html")
    write_site([Paper(entry, page=page.read_text("utf-8"))], folder, Settings())
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield driver
    driver.quit()


def show(browser: webdriver.Chrome, page: Path, width: int = 1280) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_pages_fit_every_width_and_run_without_a_complaint(
    browser: webdriver.Chrome, site: Path, width: int
) -> None:
    for name in PAGES:
        show(browser, site / name, width)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, name
        assert [each["message"] for each in browser.get_log("browser")] == [], name


@pytest.mark.parametrize(
    ("opener", "expected"),
    [
        (
            "a.value[href='#v-rate']",
            ["2 GB/s", "[1, 3] GB/s at 95 %", "a / b", "4 / 2", "2 processes"],
        ),
        ("a.reference", ["Go there"]),
        ("a.picture", ["SVG", "PDF"]),
        ("button.find", ["Search"]),
    ],
)
def test_what_opens_by_a_key_closes_by_another_and_gives_the_focus_back(
    browser: webdriver.Chrome, site: Path, opener: str, expected: list[str]
) -> None:
    show(browser, site / "sample/index.html")
    browser.find_element(By.CSS_SELECTOR, opener).send_keys(Keys.ENTER)
    dialog = WebDriverWait(browser, 20).until(
        lambda found: found.find_element(By.CSS_SELECTOR, "dialog[open]")
    )
    assert all(words in dialog.text for words in expected), dialog.text
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    WebDriverWait(browser, 20).until(lambda b: not b.find_elements(By.CSS_SELECTOR, "dialog"))
    assert browser.execute_script("return document.activeElement.matches(arguments[0])", opener)


def test_the_search_finds_a_section_of_a_paper_from_another_page(
    browser: webdriver.Chrome, site: Path
) -> None:
    text = (site / "search-index.js").read_text("utf-8")
    entries = json.loads(text.partition(" = ")[2].rstrip(";\n"))
    section = next(entry for entry in entries if entry["kind"] == "Section")
    show(browser, site / "claims.html")
    browser.find_element(By.CSS_SELECTOR, "body").send_keys("/")
    browser.switch_to.active_element.send_keys(section["title"])
    link = WebDriverWait(browser, 20).until(
        lambda found: found.find_element(By.CSS_SELECTOR, ".results a")
    )
    assert str(link.get_attribute("href")).startswith((site / "sample/index.html").as_uri())


def test_tables_sort_in_both_directions_and_colours_switch(
    browser: webdriver.Chrome, site: Path
) -> None:
    show(browser, site / "sample/index.html")
    column = (
        "return [...document.querySelectorAll('table tbody tr')].map(r => r.cells[0].innerText)"
    )
    head = browser.find_element(By.CSS_SELECTOR, "table button.sort")
    head.send_keys(Keys.ENTER)
    rising = browser.execute_script(column)
    head.send_keys(Keys.ENTER)
    table = browser.find_element(By.CSS_SELECTOR, "table")
    count = len(table.find_elements(By.CSS_SELECTOR, "tbody tr"))
    assert browser.execute_script(column)[:count] == rising[:count][::-1]
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = browser.execute_script(colour)
    browser.find_element(By.CSS_SELECTOR, "button.theme").send_keys(Keys.ENTER)
    assert browser.execute_script(colour) != before
