"""What a study finds: values with their samples, tables, claims, a description of each figure."""

from __future__ import annotations

import json

from report.engine.artifacts import save
from report.engine.computing import compute
from report.engine.gather import load
from report.engine.graph import CHOSEN, DETAILS, FINDINGS, drawing_file
from report.engine.task import Done, Task
from report.paper.details import details
from report.paper.machines import machines
from report.system.outputs import write_json


def perform(task: Task) -> Done:
    """Compute the study from the chosen records; each figure's description is a file of its own."""
    chosen = json.loads((task.artifacts / CHOSEN).read_text("utf-8"))
    parts = (chosen[name] for name in ("runs", "imported", "preferred", "left"))
    inputs = load(task.study, task.data, *parts)
    findings = compute(task.study, inputs)
    drawings = {
        drawing_file(task.study, figure.name): figure.drawing
        for figure in findings.figures.values()
    }
    for name, drawing in drawings.items():
        save(drawing, task.stage / name)
    save(findings, task.artifacts / FINDINGS)
    opened = details(findings.values.values(), inputs.records)
    write_json({**opened, "machines": machines(inputs.records)}, task.artifacts / DETAILS)
    folder = task.artifacts.relative_to(task.stage).as_posix()
    return Done((f"{folder}/{FINDINGS}", f"{folder}/{DETAILS}", *drawings))
