"""The site as a reader meets it: in chromium, from a folder, by keyboard, on every width."""

from __future__ import annotations

import functools
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from figures.canvas import Drawing
from figures.drawing.render import render
from figures.scaling import Points, Scaling
from report.render.html import PageLinks, write_page
from report.render.settings import Settings
from report.render.shell import script_of, write_assets
from report.render.single import single_file
from report.render.site import Entry, Paper, write_site
from tests.render import site_checks
from tests.render.site_checks import close, opened
from tests.render.test_render_page import FULL

pytestmark = pytest.mark.skipif(
    not (site_checks.CHROMIUM and site_checks.DRIVER),
    reason="chromium and chromium-driver are not installed",
)

PAPER = "sample/index.html"
VALUE = {
    "name": "Rate", "printed": "2 GB/s", "interval": "[1, 3] GB/s", "level": "95 %", "n": 4,
    "formula": "a / b", "numbers": "4 / 2", "sources": ["sample/x.json"], "series": [0],
}  # fmt: skip
SERIES = {
    "name": "time", "low": "1 s", "high": "2 s", "n": 4, "files": ["sample/x.json"],
    "processes": [[0, 0, 0, 500], [0, 1, 700, 1000]],
}  # fmt: skip
SUPPLEMENT = """
# Supplement {.unnumbered #sec-supplement}

[The rate]{#v-rate} is told here, of @fig-time.
"""
PANEL = Scaling("Batch", "time (s)", (Points("Forward", (16, 256), (3.5, 56.0)),))


def write_paper(source: Path, folder: Path, root: str) -> str:
    """A page with a number and a figure that open; returns its HTML."""
    folder.mkdir(parents=True)
    page = write_page(source, "sample", folder, PageLinks(root=root))
    details = {"values": {"v-rate": VALUE}, "series": [SERIES], "records": {}}
    (folder / "details.js").write_text(script_of("details", details), "utf-8")
    drawn = render(Drawing((PANEL,)), "s/fig-time")
    series = [each.__dict__ for each in drawn.series]
    opened = {"place": "figures.time", "series": series, "svg": drawn.svg.decode()}
    (folder / "figures" / "time.js").write_text(script_of("figure", opened), "utf-8")
    return page.read_text("utf-8")


@pytest.fixture(scope="module")
def site(paper: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of one paper with a supplement, in a folder whose name needs escaping."""
    folder = tmp_path_factory.mktemp("a site")
    source = shutil.copytree(paper, tmp_path_factory.mktemp("source") / "sample")
    text = (source / "sample.qmd").read_text("utf-8")
    number = f"\nThe rate is [2 GB/s](#v-rate){{.value}}.\n\n```\n{'a long line ' * 30}\n```\n"
    (source / "sample.qmd").write_text(text + number + SUPPLEMENT, "utf-8")
    write_paper(source, folder / "single", "")
    single = single_file(folder / "single")
    shutil.rmtree(folder / "single")
    (folder / "single.html").write_text(single, "utf-8")
    pages = {PAPER: write_paper(source, folder / "sample", "../")}
    pages["sample/supplement.html"] = (folder / "sample/supplement.html").read_text("utf-8")
    (folder / "reported").mkdir()
    (folder / "reported" / "sample.json").write_text("{}")
    entry = Entry("sample", "Sample", "Of a layer.", PAPER)
    full = Paper(entry, FULL.values, FULL.records[:1], FULL.machines, FULL.reported, pages)
    write_site([full], folder, Settings())
    write_assets(folder)
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
    (site / "claims.html").write_text((site / "claims.html").read_text() + '<a href="no.html">')
    assert site_checks.dead_links(site) == ["claims.html: no.html"], "the check sees a dead link"
    write = (site / "claims.html").read_text().replace('<a href="no.html">', "")
    (site / "claims.html").write_text(write)


def test_pages_fit_every_screen_without_a_complaint(browser: webdriver.Chrome, site: Path) -> None:
    axe = site_checks.npm_package(site_checks.AXE)
    pages = sorted(page.relative_to(site).as_posix() for page in site.rglob("*.html"))
    assert len(pages) == 9
    root = site.as_uri()
    faults = {
        name: site_checks.faults(browser, (site / name).as_uri(), root, axe) for name in pages
    }
    assert {name: found for name, found in faults.items() if found} == {}
    assert site_checks.weight(site / PAPER) < site_checks.MOST_BYTES
    if axe is None:
        pytest.skip("axe-core cannot be had: npm or its registry is not there; all else passed")


OPENED = [
    ("a.value[href$=v-rate]", ["2 GB/s", "[1, 3] GB/s at 95 %", "a / b", "4 / 2", "2 processes"]),
    ("a.reference[href='#fig-time']", ["Go there"]),
    ("a.reference[href='#tbl-work']", ["Batch", "Go there"]),
    ("#fig-time a.picture", ["SVG", "PDF", "Forward", "figures.time"]),
    ("button.find", ["Search"]),
]


@pytest.mark.parametrize("page", [PAPER, "single.html"])
@pytest.mark.parametrize(("opener", "expected"), OPENED)
def test_what_opens_by_a_key_closes_by_another_and_gives_the_focus_back(
    browser: webdriver.Chrome, site: Path, page: str, opener: str, expected: list[str]
) -> None:
    show(browser, site / page)
    if not (found := browser.find_elements(By.CSS_SELECTOR, opener)):
        assert (page, opener) == ("single.html", "button.find"), "one paper has no search"
        return
    found[0].send_keys(Keys.ENTER)
    text = opened(browser).text
    assert all(words in text or page == "single.html" for words in expected), text
    axe = site_checks.npm_package(site_checks.AXE)
    assert axe is None or site_checks.in_both_colours(browser, axe) == []
    close(browser)
    assert browser.execute_script("return document.activeElement.matches(arguments[0])", opener)
    assert [each["message"] for each in browser.get_log("browser")] == []


def test_numbers_open_by_mouse_and_by_touch(browser: webdriver.Chrome, site: Path) -> None:
    show(browser, site / PAPER)
    number = browser.find_element(By.CSS_SELECTOR, "a.value[href$=v-rate]")
    ActionChains(browser).move_to_element(number).click().perform()
    assert "2 GB/s" in opened(browser).text
    close(browser)
    place = browser.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'});"
        "const box = arguments[0].getBoundingClientRect();"
        "return {x: box.x + box.width / 2, y: box.y + box.height / 2}",
        number,
    )
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    for kind, points in (("touchStart", [place]), ("touchEnd", [])):
        event = {"type": kind, "touchPoints": points}
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", event)
    assert "2 GB/s" in opened(browser).text
    close(browser)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_a_reference_to_the_other_page_is_shown_in_place(
    browser: webdriver.Chrome, site: Path
) -> None:
    show(browser, site / "sample/supplement.html")
    browser.find_element(By.CSS_SELECTOR, "a.reference").send_keys(Keys.ENTER)
    dialog = opened(browser)
    assert dialog.find_elements(By.CSS_SELECTOR, "img[src$='time.svg']")
    dialog.find_element(By.LINK_TEXT, "Go there").click()
    WebDriverWait(browser, 20).until(lambda b: b.current_url.endswith("sample/index.html#fig-time"))


def test_an_opened_figure_tells_values_and_hides_a_series(
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
    assert browser.execute_script("return document.querySelectorAll('dialog [style]').length") == 0


@pytest.mark.parametrize("from_server", [False, True])
def test_the_search_finds_a_section_of_each_paper_from_another_page(
    browser: webdriver.Chrome, site: Path, from_server: bool, tmp_path: Path
) -> None:
    """From a folder, and below the path of a course."""
    (tmp_path / "courses").mkdir()
    (tmp_path / "courses" / "perf").symlink_to(site)
    handler = functools.partial(_Quiet, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/courses/perf"
        root = address if from_server else site.as_uri()
        assert site_checks.not_found(browser, site, root) == []
        link = browser.find_element(By.CSS_SELECTOR, ".results a")
        assert str(link.get_attribute("href")).startswith(f"{root}/{PAPER}")
        link.click()
        WebDriverWait(browser, 20).until(lambda b: PAPER in b.current_url)
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_tables_sort_in_both_directions_and_colours_switch(
    browser: webdriver.Chrome, site: Path
) -> None:
    show(browser, site / PAPER)
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
    browser.find_element(By.CSS_SELECTOR, "button.theme").send_keys(Keys.ENTER)


HINTS = """
return [...document.querySelectorAll("figure.table")].map(table => {
  const region = table.querySelector(".scroll");
  const hint = getComputedStyle(table.querySelector("figcaption"), "::after").content;
  return [region.scrollWidth > region.clientWidth + 1, hint !== "none", region.tabIndex === 0];
})
"""


def test_a_table_that_is_wider_than_a_phone_says_so(browser: webdriver.Chrome, site: Path) -> None:
    """In words and to the Tab key; the sample's other table is narrow and does not."""
    show(browser, site / PAPER)
    site_checks.resize(browser, 620)
    expected = [[False] * 3, [True] * 3]
    WebDriverWait(browser, 20).until(lambda b: b.execute_script(HINTS) == expected)


def test_the_checker_of_html_has_no_complaint(site: Path) -> None:
    messages = site_checks.messages_of_vnu(site)
    if messages is None:
        pytest.skip("the Nu HTML Checker cannot be run: Java, npm or its registry is not there")
    lone_accent = "Text run starts with a composing character"
    assert [each for each in messages if lone_accent not in each] == []
