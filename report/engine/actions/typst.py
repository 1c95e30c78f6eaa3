"""The PDF of one paper by Typst."""

from __future__ import annotations

from report.engine.task import Done, Task, write_paper
from report.render.typst import render_typst


def perform(task: Task) -> Done:
    """Compile the study's document."""
    content = render_typst(task.source, task.study)
    return Done(write_paper(task.stage, task.study, content))
