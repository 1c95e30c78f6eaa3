"""What a study finds: values with their samples, tables, claims, a description of each figure."""

from __future__ import annotations

import json

from report.engine.computing import compute
from report.engine.gather import load
from report.engine.graph import CHOSEN, DETAILS, FINDINGS, drawing_file
from report.engine.kept import keep
from report.engine.task import Done, Task
from report.paper.details import details
from report.paper.machines import machines
from report.system.outputs import write_json


def perform(task: Task) -> Done:
    """Compute the study from the chosen records; each figure's description is a file of its own."""
    chosen = json.loads((task.kept / CHOSEN).read_text("utf-8"))
    parts = (chosen[name] for name in ("runs", "imported", "preferred", "left"))
    inputs = load(task.study, task.data, *parts)
    findings = compute(task.study, inputs)
    drawings = {
        drawing_file(task.study, figure.name): figure.drawing
        for figure in findings.figures.values()
    }
    for name, drawing in drawings.items():
        keep(drawing, task.stage / name)
    keep(findings, task.kept / FINDINGS)
    opened = details(findings.values.values(), inputs.records)
    write_json({**opened, "machines": machines(inputs.records)}, task.kept / DETAILS)
    kept = task.kept.relative_to(task.stage).as_posix()
    return Done((f"{kept}/{FINDINGS}", f"{kept}/{DETAILS}", *drawings))
