"""The PDF of one paper by Typst."""

from __future__ import annotations

from report.engine.task import Done, Task
from report.render.typst import render_typst


def perform(task: Task) -> Done:
    """Compile the study's document."""
    pdf = task.stage / "pdf" / f"{task.study}.pdf"
    content = render_typst(task.source, task.study)
    pdf.parent.mkdir(parents=True, exist_ok=True)
    pdf.write_bytes(content)
    return Done((f"pdf/{task.study}.pdf",))
