"""What lists of studies say of one, as the step ``convert`` left it."""

from __future__ import annotations

import json

from report.engine.graph import ARTIFACTS, ENTRY
from report.engine.task import Task


def entry_of(task: Task, study: str) -> dict[str, object]:
    """Title, abstract, devices, day of measuring and so on of ``study``."""
    path = task.stage / ARTIFACTS / study / ENTRY
    content: dict[str, object] = json.loads(path.read_text("utf-8"))
    return content
