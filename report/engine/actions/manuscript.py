"""The document of a paper with its tables, values, downloads and bibliography."""

from __future__ import annotations

import json
import shutil

from report.engine.artifacts import load
from report.engine.gather import Origin
from report.engine.graph import CHOSEN, FINDINGS, LISTED
from report.engine.source_folder import write_source
from report.engine.task import Done, Task, files_in
from report.system.outputs import write_json

_LISTED = ("title", "abstract", "devices", "measured", "question", "headline", "figure")


def perform(task: Task) -> Done:
    """Write the source folder but for its figures, the values once more, and the list's entry.

    The parameter ``style`` is the print style that the user wants, where that is not the paper's.
    """
    chosen = json.loads((task.artifacts / CHOSEN).read_text("utf-8"))
    findings = load(task.artifacts / FINDINGS)
    written = write_source(
        task.study,
        Origin(**chosen["origin"]),
        findings,
        task.data,
        task.papers,
        task.source,
        task.parameters.get("style"),
    )
    values = task.stage / "values" / f"{task.study}.json"
    values.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(task.source / "values.json", values)
    listed = task.artifacts / LISTED
    others = [each["line"] for each in written["imported"]]
    write_json({**{key: written[key] for key in _LISTED}, "imported": others}, listed)
    own = (name for name in files_in(task.stage, task.source) if "/figures/" not in name)
    outputs = (*own, *(path.relative_to(task.stage).as_posix() for path in (values, listed)))
    return Done(outputs, tuple(written["unsupported"]))
