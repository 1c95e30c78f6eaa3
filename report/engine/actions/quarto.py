"""The Quarto project of all papers, rendered too where that was asked."""

from __future__ import annotations

from pathlib import Path

from report.engine.task import Done, Task, files_in, write_paper
from report.render.quarto import render_quarto, write_project
from report.render.site import Entry


def perform(task: Task) -> Done:
    """Write the project; the parameters name its ``studies`` and the formats to ``render``."""
    project = task.stage / "quarto"
    sources = {study: task.stage / "qmd" / study for study in task.parameters["studies"].split()}
    entries = {study: Entry.of(task.entry(study), study=study, page="") for study in sources}
    write_project(sources, project, entries)
    formats = task.parameters["render"].split()
    papers = _rendered(task.stage, project, tuple(sources), formats) if formats else ()
    return Done((*files_in(task.stage, project), *papers))


def _rendered(
    stage: Path, project: Path, studies: tuple[str, ...], formats: list[str]
) -> tuple[str, ...]:
    """Render; the PDFs are put where those of the other engines are."""
    site = render_quarto(project, formats)
    papers = {study: site / study / f"{study}.pdf" for study in studies}
    written = (write_paper(stage, s, pdf.read_bytes()) for s, pdf in papers.items() if pdf.exists())
    return tuple(name for names in written for name in names)
