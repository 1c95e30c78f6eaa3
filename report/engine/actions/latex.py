"""The PDF of one paper by LaTeX."""

from __future__ import annotations

from report.engine.task import Done, Task, write_paper
from report.render.latex import compile_latex


def perform(task: Task) -> Done:
    """Compile the folder that the step ``tex`` wrote."""
    content = compile_latex(task.stage / "tex" / task.study, task.study)
    return Done(write_paper(task.stage, task.study, content))
