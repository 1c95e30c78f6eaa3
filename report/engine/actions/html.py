"""The page of one paper with its figures, and the tables, values and records that it offers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from report.engine.graph import DETAILS, OPENED, PAGE, RECORDS_FOLDER, SAMPLES, paper_files
from report.engine.page_links import page_links
from report.engine.task import Done, Task, files_in
from report.render.html import write_page
from report.render.shell import script_of


def perform(task: Task) -> Done:
    """Write the page around what pandoc has written of it."""
    page = task.stage / "html" / task.study
    page.mkdir(parents=True, exist_ok=True)
    tables = shutil.ignore_patterns("*.tex")
    shutil.copytree(task.source / "tables", page / "tables", ignore=tables)
    shutil.copyfile(task.source / "values.json", page / "values.json")
    if (task.artifacts / SAMPLES).exists():
        shutil.copyfile(task.artifacts / SAMPLES, page / SAMPLES)
        shutil.copytree(task.artifacts / RECORDS_FOLDER, page / RECORDS_FOLDER)
    write_openable(task, page)
    text = (task.artifacts / PAGE).read_text("utf-8")
    write_page(task.source, task.study, page, page_links(task), text)
    # The step that makes the PDF may have put it there meanwhile.
    paper = paper_files(task.study)[1]
    return Done(tuple(name for name in files_in(task.stage, page) if name != paper))


def write_openable(task: Task, page: Path) -> None:
    """Write what the page shows of each number and figure that is opened."""
    details = json.loads((task.artifacts / DETAILS).read_text("utf-8"))
    shown = {key: details[key] for key in ("values", "series", "records")}
    (page / "details.js").write_text(script_of("details", shown), "utf-8", newline="\n")
    (page / "figures").mkdir(exist_ok=True)
    for name, opened in json.loads((task.artifacts / OPENED).read_text("utf-8")).items():
        script = script_of("figure", opened)
        (page / "figures" / f"{name}.js").write_text(script, "utf-8", newline="\n")
