"""The pages over all studies, and what all pages share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from report.engine.graph import ARTIFACTS, DETAILS, RECORDS
from report.engine.task import Done, Task
from report.records.files import shared
from report.render.settings import read_settings
from report.render.site import Entry, Paper, write_site


def perform(task: Task) -> Done:
    """Write the pages; each parameter is a study, with ``pdf`` if it has one."""
    papers = [_paper(task, study, pdf) for study, pdf in task.parameters.items()]
    written = write_site(papers, task.stage / "html", read_settings(task.data))
    reported = (paper.reported for paper in papers if paper.reported)
    return Done(tuple(f"html/{name}" for name in (*written, *reported)))


def _paper(task: Task, study: str, pdf: str) -> Paper:
    page, paper = f"{study}/index.html", f"{study}/{study}.pdf" if pdf else None
    artifacts, html = task.stage / ARTIFACTS / study, task.stage / "html" / page
    return Paper(
        Entry.of(task.entry(study), study=study, page=page, pdf=paper),
        _read(task.stage / "values" / f"{study}.json", {}),
        _read(artifacts / RECORDS, []),
        _read(artifacts / DETAILS, {}).get("machines", []),
        _copy_reported(task, study),
        html.read_text("utf-8") if html.exists() else "",
    )


def _copy_reported(task: Task, study: str) -> str:
    """Put the published values that the study repeats on the site; where, or nothing."""
    source, name = shared(f"reported/{study}.json", task.data), f"reported/{study}.json"
    if not source.exists():
        return ""
    target = task.stage / "html" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return name


def _read(path: Path, otherwise: Any) -> Any:
    """What an earlier step wrote; an edition of another version may not have it."""
    return json.loads(path.read_text("utf-8")) if path.exists() else otherwise
