"""What a study finds in its records: values, tables, claims, and a description of each figure."""

from __future__ import annotations

import json

from report.engine.gather import load
from report.engine.graph import CHOSEN, FINDINGS, drawing_file
from report.engine.kept import keep
from report.engine.task import Done, Task
from report.studies import compute


def perform(task: Task) -> Done:
    """Compute the study from the chosen records; each figure's description is a file of its own."""
    chosen = json.loads((task.kept / CHOSEN).read_text("utf-8"))
    findings = compute(task.study, load(task.study, task.data, chosen["runs"], chosen["imported"]))
    drawings = {
        drawing_file(task.study, figure.name): figure.drawing
        for figure in findings.figures.values()
    }
    for name, drawing in drawings.items():
        keep(drawing, task.stage / name)
    keep(findings, task.kept / FINDINGS)
    found = f"{task.kept.relative_to(task.stage).as_posix()}/{FINDINGS}"
    return Done((found, *drawings))
