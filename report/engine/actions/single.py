"""The page of one paper as a single file."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from report.engine.actions.html import write_whole_page
from report.engine.graph import SINGLE
from report.engine.task import Done, Task
from report.render.html import PageLinks
from report.render.single import single_file


def perform(task: Task) -> Done:
    """Write ``single/<study>.html``."""
    name = f"{SINGLE}/{task.study}.html"
    target = task.stage / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="ridgepoint-") as scratch:
        write_whole_page(task, Path(scratch), PageLinks())
        target.write_text(single_file(Path(scratch)), "utf-8", newline="\n")
    return Done((name,))
