"""The work of a step as it travels between processes, and what becomes of it."""

from __future__ import annotations

import errno
import gc
import json
import pickle
import shutil
import traceback
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from figures.characters import visible_in
from report.engine.cache import Entry, file_digest
from report.engine.steps import ARTIFACTS, SITE
from report.errors import RidgepointError, one_line, unwritable

#: What the system says when a folder is full, or may not be written.
_NO_ROOM: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG}
)


class Task(NamedTuple):
    """The work of one step; ``stage`` is a folder laid out like ``out/``.

    It holds what the step reads, and takes what it makes.
    """

    id: str
    stage: Path
    data: Path
    papers: Path
    settings: Mapping[str, str]

    @property
    def study(self) -> str:
        """The study that the step belongs to."""
        return self.id.partition("/")[0]

    @property
    def source(self) -> Path:
        """The folder of the study's document and all that belongs to it."""
        return self.stage / "qmd" / self.study

    def artifacts(self, study: str = "") -> Path:
        """Where a study, the task's own if none is named, keeps what only later steps read."""
        return self.stage / ARTIFACTS / (study or self.study)


class FailedStepError(Exception):
    """Why a step failed: one sentence, and its traceback as text.

    As text, because an error that comes from a worker process has lost its own.
    """


def do(task: Task, inputs: Mapping[str, str]) -> Entry:
    """Run a step; returns what it made from its ``inputs``, or raises ``FailedStepError``.

    What it reads of earlier steps is on its stage and among its inputs as ``out/…``.
    """
    from report.engine import actions

    gc.disable()  # a step ends soon, and a tenth of it would be the search for cycles
    try:
        task.stage.mkdir(parents=True, exist_ok=True)
        notices = getattr(actions, task.id.partition("/")[2])(task)
    except Exception as error:
        # A defect of ours in one study must not stop the others.  The stage is gone when this is
        # read; it stands for the folder in which it lies.
        said = _sentence(task, error).replace(str(task.stage), str(task.stage.parents[2]))
        raise FailedStepError(said, traceback.format_exc()) from error
    finally:
        gc.enable()
    files = sorted(path for path in task.stage.rglob("*") if path.is_file())
    outputs = {path.relative_to(task.stage).as_posix(): file_digest(str(path)) for path in files}
    new = {name: str(digest) for name, digest in outputs.items() if f"out/{name}" not in inputs}
    return Entry(inputs, new, notices or ())


def _sentence(task: Task, error: Exception) -> str:
    if isinstance(error, RidgepointError):
        return str(error)
    if isinstance(error, shutil.Error) or (isinstance(error, OSError) and error.errno in _NO_ROOM):
        return str(unwritable(error))
    found = f"{task.study}: {type(error).__name__}: {error}"
    # What all studies share reads what an earlier version may have made of one.
    all_of_them = "build all studies (python build.py), or " if task.study == SITE else ""
    return one_line(f"{found}; {all_of_them}run again with --debug.")


def save(thing: Any, path: Path) -> None:
    """Write ``thing``, a tree of frozen values.

    Without pickle's memory of what it has written before, the bytes do not depend on whether two
    equal values happen to be one object.  Raises ``OSError``.
    """
    stream = BytesIO()
    pickler = pickle.Pickler(stream, protocol=5)
    pickler.fast = True
    pickler.dump(thing)
    path.write_bytes(stream.getvalue())


def load(path: Path) -> Any:
    """What ``save`` wrote.

    Only for files that a step of this build made or whose digest the manifest has confirmed, since
    unpickling runs code.  Raises ``OSError``.
    """
    return pickle.loads(path.read_bytes())


def write_json(content: Any, path: Path) -> None:
    """Write sorted, indented JSON in visible characters; NaN and infinity are refused."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        visible_in(content), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False
    )
    path.write_text(text + "\n", encoding="utf-8")
