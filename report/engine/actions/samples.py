"""Every raw sample behind a paper, as one tidy table for its reader."""

from __future__ import annotations

import json

from report.engine.graph import CHOSEN, SAMPLES
from report.engine.task import Done, Task
from report.instruments.counters.logs import gzipped
from report.records.frames import sample_frame
from report.records.imported_files import read_import
from report.records.store import read_record


def perform(task: Task) -> Done:
    """Write the samples of the chosen records, one a row; nothing where there are none."""
    chosen = json.loads((task.kept / CHOSEN).read_text("utf-8"))
    files = (file for runs in chosen["runs"] for file in runs)
    records = tuple(read_record(task.data / file, task.data) for file in files)
    imported = tuple(read_import(task.data / file, task.data) for file in chosen["imported"])
    if not (records or imported):
        return Done(())
    table = sample_frame((*records, *imported)).to_csv(index=False, lineterminator="\n")
    (task.kept / SAMPLES).write_bytes(gzipped(table.encode()))
    return Done((f"{task.kept.relative_to(task.stage).as_posix()}/{SAMPLES}",))
