"""The page of one paper with its figures, and the tables and values that it offers."""

from __future__ import annotations

import shutil
from pathlib import Path

from report.engine.graph import SAMPLES, paper_files
from report.engine.task import Done, Task, files_in
from report.render.html import PageLinks, write_page


def perform(task: Task) -> Done:
    """Write the page; the parameter ``pdf`` says whether it leads to a PDF."""
    page = task.stage / "html" / task.study
    page.mkdir(parents=True, exist_ok=True)
    tables = shutil.ignore_patterns("*.tex")
    shutil.copytree(task.source / "tables", page / "tables", ignore=tables)
    shutil.copyfile(task.source / "values.json", page / "values.json")
    samples = task.kept / SAMPLES
    if samples.exists():
        shutil.copyfile(samples, page / SAMPLES)
    links = PageLinks(
        pdf=f"{task.study}.pdf" if task.parameters["pdf"] == "yes" else None,
        downloads=(("Values and tables (JSON)", "values.json"), *_offered(samples)),
        home="../index.html",
        stylesheet="../style.css",
    )
    write_page(task.source, task.study, page, links)
    # The step that makes the PDF may have put it there meanwhile.
    paper = paper_files(task.study)[1]
    return Done(tuple(name for name in files_in(task.stage, page) if name != paper))


def _offered(samples: Path) -> tuple[tuple[str, str], ...]:
    """The samples of a study that has any."""
    return (("Every sample (CSV, compressed)", SAMPLES),) if samples.exists() else ()
