"""The PDF of one paper by LaTeX."""

from __future__ import annotations

from report.engine.task import Done, Task
from report.render.latex import compile_latex


def perform(task: Task) -> Done:
    """Compile the folder that the step ``tex`` wrote."""
    pdf = task.stage / "pdf" / f"{task.study}.pdf"
    content = compile_latex(task.stage / "tex" / task.study, task.study)
    pdf.parent.mkdir(parents=True, exist_ok=True)
    pdf.write_bytes(content)
    return Done((f"pdf/{task.study}.pdf",))
