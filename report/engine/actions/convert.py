"""What pandoc writes of one paper: every format, and what lists of studies say of it."""

from __future__ import annotations

import json
from typing import Final

from report.engine.graph import ENTRY, LATEX, LISTED, PAGE, TYPST
from report.engine.page_links import page_links
from report.engine.task import Done, Task
from report.render.html import page_edition
from report.render.latex import latex_edition
from report.render.pandoc import Writer, convert
from report.render.site import in_plain_words
from report.render.source import read_source
from report.render.typst import typst_edition
from report.system.outputs import write_json

_FILES: Final[dict[Writer, str]] = {"html": PAGE, "latex": LATEX, "typst-citations": TYPST}
#: How the formats of print are written.
_PRINT: Final = {"latex": latex_edition, "typst": typst_edition}


def perform(task: Task) -> Done:
    """Write the ``formats`` that the parameter names; the page leads to a PDF where one is made."""
    paper, formats = read_source(task.source, task.study), task.parameters["formats"].split()
    listed = json.loads((task.artifacts / LISTED).read_text("utf-8"))
    printed = [edition(paper) for name, edition in _PRINT.items() if name in formats]
    links = page_links(task, pdf=bool(printed))
    editions = (*([page_edition(paper, links)] if "html" in formats else []), *printed)
    written = convert(paper, editions, (listed["title"], listed["abstract"]))
    for to, text in written.editions.items():
        (task.artifacts / _FILES[to]).write_text(text, "utf-8", newline="\n")
    write_json({**listed, **in_plain_words(*written.plain)}, task.artifacts / ENTRY)
    folder = task.artifacts.relative_to(task.stage).as_posix()
    names = (*(_FILES[to] for to in written.editions), ENTRY)
    return Done(tuple(f"{folder}/{name}" for name in names))
