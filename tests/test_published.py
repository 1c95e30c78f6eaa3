"""``out/html`` is the whole site: copied elsewhere by itself, no link of any page is dead.

Uses the small project of ``tests.tiny``.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests import tiny
from tests.render.site_checks import dead_links
from tests.test_builds import built, project
from tests.tiny import STUDY

__all__ = ["built", "project"]

PAPER = f"{STUDY}/{STUDY}.pdf"


def links_to_pdf(site: Path) -> set[str]:
    """The pages that lead to the PDF of a paper, relative to ``site``."""
    return {
        page.relative_to(site).as_posix()
        for page in site.rglob("*.html")
        if re.search(rf'\shref="([^"]*/)?{STUDY}\.pdf"', page.read_text("utf-8"))
    }


def test_the_site_is_whole_by_itself(built: Path, tmp_path: Path) -> None:
    site = shutil.copytree(built / "out" / "html", tmp_path / "published")
    assert links_to_pdf(site) == {"index.html", f"{STUDY}/index.html"}
    assert dead_links(site) == []
    paper = (built / "out" / "pdf" / f"{STUDY}.pdf").read_bytes()
    assert (site / PAPER).read_bytes() == paper


def test_pages_alone_promise_no_pdf(project: Path) -> None:
    tiny.build(project, "--html", "--out", "pages")
    assert links_to_pdf(project / "pages" / "html") == set()
    assert dead_links(project / "pages" / "html") == []
