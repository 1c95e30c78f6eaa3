"""The PDF of one paper by Typst."""

from __future__ import annotations

from typing import cast

from report.engine.task import Done, Task, write_paper
from report.render.styles import PdfStandard
from report.render.typst import render_typst


def perform(task: Task) -> Done:
    """Compile the study's document; the parameter ``standard`` is that of the PDF."""
    content = render_typst(task.source, task.study, cast(PdfStandard, task.parameters["standard"]))
    return Done(write_paper(task.stage, task.study, content))
