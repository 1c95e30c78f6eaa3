"""Where the page of a study leads on the site, and what it says of its measurements."""

from __future__ import annotations

import json

from report.engine.graph import CHOSEN, SAMPLES
from report.engine.task import Task
from report.render.html import PageLinks
from report.render.settings import read_settings


def page_links(task: Task, *, pdf: bool = False) -> PageLinks:
    """The links of the page that ``task`` writes or converts; ``pdf`` if a PDF lies beside it."""
    values = json.loads((task.source / "values.json").read_text("utf-8"))
    chosen = json.loads((task.artifacts / CHOSEN).read_text("utf-8"))
    measured = chosen["runs"] or chosen["imported"]
    samples = (("Every sample (CSV, compressed)", SAMPLES),) if measured else ()
    return PageLinks(
        pdf=f"{task.study}.pdf" if pdf else None,
        downloads=(("Values and tables (JSON)", "values.json"), *samples),
        root="../",
        settings=read_settings(task.data),
        measured=values["measured"],
        devices=tuple(values["devices"]),
    )
