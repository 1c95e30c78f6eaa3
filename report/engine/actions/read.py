"""Which records a paper uses."""

from __future__ import annotations

from report.engine.gather import choose
from report.engine.graph import CHOSEN, RECORDS
from report.engine.task import Done, Task
from report.system.outputs import write_json


def perform(task: Task) -> Done:
    """Write the records that the study uses, with their digests, and what became of all others.

    The parameter ``use`` names records that the user wants in this build, a line each.
    """
    asked = tuple(task.parameters.get("use", "").splitlines())
    chosen = choose(task.study, task.data, asked)
    write_json(chosen.as_json(), task.artifacts / CHOSEN)
    write_json(chosen.listing, task.artifacts / RECORDS)
    folder = task.artifacts.relative_to(task.stage).as_posix()
    return Done((f"{folder}/{CHOSEN}", f"{folder}/{RECORDS}"), chosen.notices)
