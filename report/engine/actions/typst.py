"""The PDF of one paper by Typst."""

from __future__ import annotations

from typing import cast

from report.engine.graph import TYPST
from report.engine.task import Done, Task, write_paper
from report.render.styles import PdfStandard
from report.render.typst import render_typst


def perform(task: Task) -> Done:
    """Compile the study's document; the parameter ``standard`` is that of the PDF."""
    standard = cast(PdfStandard, task.parameters["standard"])
    text = (task.artifacts / TYPST).read_text("utf-8")
    content = render_typst(task.source, task.study, standard, text)
    return Done(write_paper(task.stage, task.study, content))
