"""The list of all studies, the first page of the site."""

from __future__ import annotations

import json
from typing import Any

from report.engine.graph import KEPT, LISTED
from report.engine.task import Done, Task
from report.render.site import Entry, entry, write_index


def perform(task: Task) -> Done:
    """Write the list; each parameter is a study, with ``pdf`` if it has one."""
    kept = {study: task.stage / KEPT / study / LISTED for study in task.parameters}
    listed = {study: json.loads(path.read_text("utf-8")) for study, path in kept.items()}
    entries = [_entry(study, listed[study], pdf) for study, pdf in task.parameters.items()]
    write_index(entries, task.stage / "html")
    return Done(("html/index.html", "html/style.css"))


def _entry(study: str, listed: dict[str, Any], pdf: str) -> Entry:
    page = f"{study}/index.html"
    return entry(**listed, study=study, page=page, pdf=f"../pdf/{study}.pdf" if pdf else None)
