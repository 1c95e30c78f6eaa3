"""Check all pages of a site in chromium: ``python -m tests.render.site_checks out/html``."""

import functools
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
#: Package of npm that finds faults of accessibility.
AXE = "axe-core@4.14.1"
#: Widths and height of screens in CSS pixels; each screen is also turned by 90°.
WIDTHS, HEIGHT = (320, 390, 768, 1280), 900
COLOURS = ("light", "dark")
#: Script that returns a line per violation, with at most three places.
_RUN_AXE = """
const done = arguments[arguments.length - 1];
const line = fault => `${fault.id}: ${fault.nodes.slice(0, 3).map(n => n.target.join(" "))}`;
axe.run(document, { resultTypes: ["violations"], preload: false })
  .then(result => done(result.violations.map(line)));
"""
#: Script that returns the addresses of everything that the page has loaded.
_LOADED = "return performance.getEntriesByType('resource').map(entry => entry.name)"
#: Script that returns the pixels by which the page is wider than the screen.
_OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Start a browser that logs its console; quit it on exit."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    driver.set_script_timeout(120)
    try:
        yield driver
    finally:
        driver.quit()


def resize(browser: webdriver.Chrome, width: int, height: int = HEIGHT) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@functools.cache
def axe_core() -> str | None:
    """Return the script of axe-core from npm, or None without npm or its registry."""
    npm, folder = shutil.which("npm"), Path(tempfile.gettempdir()) / f"ridgepoint-{AXE}"
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if npm and not script.exists():
        subprocess.run([npm, "install", "--silent", "--prefix", folder, AXE], check=False)
    return script.read_text("utf-8") if script.exists() else None


def faults(browser: webdriver.Chrome, address: str, root: str, axe: str | None) -> list[str]:
    """Load a page once; return the faults on all screens and in both colour schemes.

    ``root`` is the address of the site, ``axe`` the script of axe-core.  Without the script,
    accessibility is not checked.
    """
    resize(browser, WIDTHS[-1])
    browser.get(address)
    lines = [f"console: {entry['message']}" for entry in browser.get_log("browser")]
    loaded = browser.execute_script(_LOADED)
    lines += [f"foreign request: {name}" for name in loaded if not name.startswith((root, "data:"))]
    for width in WIDTHS:
        for size in ((width, HEIGHT), (HEIGHT, width)):
            resize(browser, *size)
            if browser.execute_script(_OVERFLOW) > 0:
                lines.append(f"wider than {size[0]} × {size[1]}")
    resize(browser, WIDTHS[-1])
    if axe is None:
        return lines
    browser.execute_script(axe)
    for scheme in COLOURS:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        lines += [f"{scheme}: {fault}" for fault in browser.execute_async_script(_RUN_AXE)]
    return lines


#: Elements without an end tag.
_VOID = {"meta", "link", "img", "source", "br", "hr", "input", "col"}


class Page(HTMLParser):
    """All elements of a page with attributes; fails if elements are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of every element with this tag."""
        return [attributes for name, attributes in self.elements if name == tag]

    def values(self, *names: str) -> list[str]:
        """Return the values of the attributes ``names`` of all elements."""
        return [value for _, tag in self.elements for name, value in tag.items() if name in names]


def dead_links(site: Path) -> list[str]:
    """Return links within the site to a missing file or element."""
    pages = {page: Page(page.read_text("utf-8")) for page in site.rglob("*.html")}
    dead = []
    for path, page in pages.items():
        for link in page.values("href", "src"):
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path.resolve()  # of a link such as #section
            if parts.path:
                target = (path.parent / urllib.parse.unquote(parts.path)).resolve()
            exists = target.is_file() and target.is_relative_to(site.resolve())
            ids = pages[target].values("id") if target in pages else ()
            if not exists or (parts.fragment and urllib.parse.unquote(parts.fragment) not in ids):
                dead.append(f"{path.relative_to(site)}: {link}")
    return dead


def main(folder: str) -> int:
    """Print all faults of a site and the checks that are omitted; return 1 if there are faults."""
    site, axe = Path(folder).resolve(), axe_core()
    faults_by_page = {"links": dead_links(site)}
    if axe is None:
        print(f"{AXE} is not installed; accessibility was not checked")
    with chromium() as browser:
        for page in sorted(site.rglob("*.html")):
            name = page.relative_to(site).as_posix()
            faults_by_page[name] = faults(browser, page.as_uri(), site.as_uri(), axe)
    for name, lines in faults_by_page.items():
        for line in lines:
            print(f"{name}: {line}")
    return 1 if any(faults_by_page.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
