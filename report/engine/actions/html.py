"""The page of one paper with its figures, and the tables, values and records that it offers."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from report.engine.graph import DETAILS, RECORDS_FOLDER, SAMPLES, opened_file, paper_files
from report.engine.task import Done, Task, files_in
from report.render.html import PageLinks, write_page
from report.render.settings import read_settings
from report.render.shell import script_of


def perform(task: Task) -> Done:
    """Write the page; the parameter ``pdf`` says whether it leads to a PDF."""
    page = task.stage / "html" / task.study
    page.mkdir(parents=True, exist_ok=True)
    tables = shutil.ignore_patterns("*.tex")
    shutil.copytree(task.source / "tables", page / "tables", ignore=tables)
    shutil.copyfile(task.source / "values.json", page / "values.json")
    samples, records = task.kept / SAMPLES, task.kept / RECORDS_FOLDER
    if samples.exists():
        shutil.copyfile(samples, page / SAMPLES)
        shutil.copytree(records, page / RECORDS_FOLDER)
    links = PageLinks(
        pdf=f"{task.study}.pdf" if task.parameters["pdf"] == "yes" else None,
        downloads=(("Values and tables (JSON)", "values.json"), *_offered(samples)),
        root="../",
    )
    write_whole_page(task, page, links)
    # The step that makes the PDF may have put it there meanwhile.
    paper = paper_files(task.study)[1]
    return Done(tuple(name for name in files_in(task.stage, page) if name != paper))


def write_whole_page(task: Task, page: Path, links: PageLinks) -> None:
    """Write the page into the folder ``page`` with what is shown when something is opened."""
    values = json.loads((task.source / "values.json").read_text("utf-8"))
    _write_details(task, page)
    _write_figures(task, page)
    known = replace(
        links,
        settings=read_settings(task.data),
        measured=values["measured"],
        devices=tuple(values["devices"]),
    )
    write_page(task.source, task.study, page, known)


def _write_details(task: Task, page: Path) -> None:
    """What the page shows of a number that is opened."""
    details = json.loads((task.kept / DETAILS).read_text("utf-8"))
    shown = {key: details[key] for key in ("values", "series", "records")}
    (page / "details.js").write_text(script_of("details", shown), "utf-8", newline="\n")


def _write_figures(task: Task, page: Path) -> None:
    """What the page shows of each figure that is opened."""
    (page / "figures").mkdir(exist_ok=True)
    for drawn in sorted(task.source.glob("figures/*.svg")):
        opened = json.loads((task.stage / opened_file(task.study, drawn.stem)).read_text("utf-8"))
        script = script_of("figure", opened)
        (page / "figures" / f"{drawn.stem}.js").write_text(script, "utf-8", newline="\n")


def _offered(samples: Path) -> tuple[tuple[str, str], ...]:
    """The samples of a study that has any."""
    return (("Every sample (CSV, compressed)", SAMPLES),) if samples.exists() else ()
