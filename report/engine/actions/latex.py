"""The PDF of one paper by LaTeX."""

from __future__ import annotations

from report.engine.graph import BIBLIOGRAPHY
from report.engine.task import Done, Task, write_paper
from report.render.latex import compile_latex


def perform(task: Task) -> Done:
    """Compile the folder that the step ``tex`` wrote; keep the bibliography for the archive."""
    made = compile_latex(task.stage / "tex" / task.study, task.study)
    bibliography = task.artifacts / BIBLIOGRAPHY
    bibliography.parent.mkdir(parents=True, exist_ok=True)
    bibliography.write_bytes(made.bibliography)
    name = bibliography.relative_to(task.stage).as_posix()
    return Done((*write_paper(task.stage, task.study, made.pdf), name))
