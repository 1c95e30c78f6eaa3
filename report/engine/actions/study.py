"""Which records a paper uses and what its study finds in them: values, tables, claims, figures."""

from __future__ import annotations

from report.engine.computing import compute_usable
from report.engine.graph import CHOSEN, DETAILS, DRAWINGS, FINDINGS, RECORDS
from report.engine.task import Done, Task, save
from report.paper.details import details
from report.paper.listing import machines
from report.system.outputs import write_json


def perform(task: Task) -> Done:
    """Choose the records and compute the study; figures are described in a file of their own.

    The parameter ``use`` names records that the user wants in this build, a line each.
    """
    asked = tuple(task.parameters.get("use", "").splitlines())
    chosen, inputs, findings = compute_usable(task.study, task.data, asked)
    write_json(chosen.as_json(), task.artifacts / CHOSEN)
    write_json(chosen.listing, task.artifacts / RECORDS)
    drawings = {figure.name: figure.drawing for figure in findings.figures.values()}
    save(drawings, task.artifacts / DRAWINGS)
    save(findings, task.artifacts / FINDINGS)
    opened = details(findings.values.values(), inputs.records)
    write_json({**opened, "machines": machines(inputs.records)}, task.artifacts / DETAILS)
    folder = task.artifacts.relative_to(task.stage).as_posix()
    own = tuple(f"{folder}/{name}" for name in (CHOSEN, RECORDS, FINDINGS, DRAWINGS, DETAILS))
    return Done(own, chosen.notices)
