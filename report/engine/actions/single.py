"""The page of one paper as a single file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from report.engine.actions.html import write_openable
from report.engine.graph import SINGLE
from report.engine.page_links import page_links
from report.engine.task import Done, Task
from report.render.html import write_page
from report.render.single import single_file


def perform(task: Task) -> Done:
    """Write ``single/<study>.html``."""
    name = f"{SINGLE}/{task.study}.html"
    target = task.stage / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="ridgepoint-") as scratch:
        page, links = Path(scratch), replace(page_links(task), downloads=(), root="")
        write_openable(task, page)
        write_page(task.source, task.study, page, links)
        target.write_text(single_file(Path(scratch)), "utf-8", newline="\n")
    return Done((name,))
