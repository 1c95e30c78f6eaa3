"""What lists of studies say of one paper, in plain words."""

from __future__ import annotations

import json

from report.engine.graph import ENTRY, KEPT, LISTED
from report.engine.task import Done, Task
from report.render.site import in_plain_words
from report.system.outputs import write_json


def perform(task: Task) -> Done:
    """Turn the title and the abstract of the paper, which are markdown, into plain text."""
    listed = json.loads((task.kept / LISTED).read_text("utf-8"))
    plain = in_plain_words(listed["title"], listed["abstract"])
    write_json({**listed, **plain}, task.kept / ENTRY)
    return Done((f"{task.kept.relative_to(task.stage).as_posix()}/{ENTRY}",))


def entry_of(task: Task, study: str) -> dict[str, object]:
    """What ``perform`` wrote of ``study``: title, abstract, devices, day of measuring and so on."""
    path = task.stage / KEPT / study / ENTRY
    content: dict[str, object] = json.loads(path.read_text("utf-8"))
    return content
