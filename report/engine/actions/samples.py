"""Every raw sample behind a paper as one tidy table, and its records, for its reader."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Final

from report.engine.graph import CHOSEN, RECORDS_FOLDER, SAMPLES
from report.engine.task import Done, Task
from report.instruments.counters.logs import gzip_writer
from report.records.frames import write_samples
from report.records.store import read_import, read_record

#: Most of a build would go into a file that is smaller by a sixth, and into its small pieces.
_QUICK: Final = 1
_BLOCK: Final = 2**20


def perform(task: Task) -> Done:
    """Write the samples of the chosen records, one a row, and the records; nothing without any."""
    chosen = json.loads((task.artifacts / CHOSEN).read_text("utf-8"))
    files = [file for runs in chosen["runs"] for file in runs]
    records = tuple(read_record(task.data / file, task.data) for file in files)
    imported = tuple(read_import(task.data / file, task.data) for file in chosen["imported"])
    if not (records or imported):
        return Done(())
    with (
        (task.artifacts / SAMPLES).open("wb") as file,
        io.BufferedWriter(gzip_writer(file, _QUICK), _BLOCK) as packed,
        io.TextIOWrapper(packed, "utf-8", newline="\n") as stream,
    ):
        write_samples((*records, *imported), stream)
    copied = (*files, *chosen["imported"])
    folder = task.artifacts.relative_to(task.stage).as_posix()
    return Done((f"{folder}/{SAMPLES}", *(f"{folder}/{_copy(task, file)}" for file in copied)))


def _copy(task: Task, file: str) -> str:
    """Put the record where the site takes it from; returns its name."""
    name = f"{RECORDS_FOLDER}/{Path(file).name}"
    target = task.artifacts / name
    target.parent.mkdir(exist_ok=True)
    shutil.copyfile(task.data / file, target)
    return name
