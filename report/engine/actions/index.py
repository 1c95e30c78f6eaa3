"""The list of all studies, the first page of the site."""

from __future__ import annotations

from report.engine.actions.listed import entry_of
from report.engine.task import Done, Task
from report.render.html import SCRIPT
from report.render.site import Entry, write_index


def perform(task: Task) -> Done:
    """Write the list; each parameter is a study, with ``pdf`` if it has one."""
    entries = [_entry(task, study, pdf) for study, pdf in task.parameters.items()]
    write_index(entries, task.stage / "html")
    return Done(("html/index.html", f"html/{SCRIPT}", "html/style.css"))


def _entry(task: Task, study: str, pdf: str) -> Entry:
    page, paper = f"{study}/index.html", f"{study}/{study}.pdf" if pdf else None
    return Entry.of(entry_of(task, study), study=study, page=page, pdf=paper)
