"""The LaTeX source of one paper in one archive, as arXiv wants it."""

from __future__ import annotations

from report.engine.graph import BIBLIOGRAPHY, bundle_file
from report.engine.task import Done, Task
from report.instruments.counters.logs import gzipped
from report.render.bundle import bundle


def perform(task: Task) -> Done:
    """Pack the folder that the step ``tex`` wrote, with the bibliography if LaTeX has set one."""
    set_one = task.artifacts / BIBLIOGRAPHY
    bibliography = set_one.read_bytes() if task.parameters["bibliography"] == "yes" else b""
    name = bundle_file(task.study)
    content = bundle(task.stage / "tex" / task.study, task.study, bibliography)
    (task.stage / name).write_bytes(gzipped(content))
    return Done((name,))
