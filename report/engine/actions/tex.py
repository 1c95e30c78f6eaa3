"""The LaTeX source of one paper, in a folder that anybody can compile."""

from __future__ import annotations

from report.engine.graph import LATEX
from report.engine.task import Done, Task, files_in
from report.render.latex import write_latex


def perform(task: Task) -> Done:
    """Write the folder."""
    folder = task.stage / "tex" / task.study
    text = (task.artifacts / LATEX).read_text("utf-8")
    write_latex(task.source, task.study, folder, text)
    return Done(files_in(task.stage, folder))
