"""What a step is given and what it gives back, as it travels between processes."""

from __future__ import annotations

import errno
import importlib
import io
import json
import pickle
import shutil
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from report.engine.contents import file_digest
from report.engine.graph import ARTIFACTS, ENTRY, paper_files
from report.errors import OutputError, RidgepointError, one_line

#: What the system says when a folder is full, or may not be written.
_NO_ROOM: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG}
)


class Task(NamedTuple):
    """The work of one step; ``stage`` is a folder laid out like ``out/``."""

    id: str
    study: str
    action: str
    stage: Path
    data: Path
    papers: Path
    parameters: dict[str, str]

    @property
    def source(self) -> Path:
        """The folder of the study's document and all that belongs to it."""
        return self.stage / "qmd" / self.study

    @property
    def artifacts(self) -> Path:
        """Where the study keeps what only later steps read."""
        return self.stage / ARTIFACTS / self.study

    def entry(self, study: str) -> dict[str, object]:
        """What lists of studies say of one, as its step ``convert`` left it."""
        path = self.stage / ARTIFACTS / study / ENTRY
        content: dict[str, object] = json.loads(path.read_text("utf-8"))
        return content


class Done(NamedTuple):
    """What an action made, relative to the stage, and what the user should know."""

    outputs: tuple[str, ...]
    notices: tuple[str, ...] = ()


class Result(NamedTuple):
    """The outcome of a step; ``failure`` is one sentence, ``trace`` its traceback as text.

    The traceback is text, because an error that comes from a worker process has lost its own.
    """

    outputs: dict[str, str]
    notices: tuple[str, ...] = ()
    failure: str | None = None
    trace: str = ""


def import_action(action: str) -> ModuleType:
    """The module that does the work of an action, with all that it needs."""
    return importlib.import_module(f"report.engine.actions.{action}")


def do(task: Task) -> Result:
    """Run a step and take the digests of what it made; what goes wrong is in the result."""
    result = _do(task)
    # The stage is gone when this is read; it stands for the folder in which it lies.
    stage, out = str(task.stage), str(task.stage.parents[1])
    return result._replace(failure=result.failure and result.failure.replace(stage, out))


def _do(task: Task) -> Result:
    try:
        done: Done = import_action(task.action).perform(task)
        digests = {name: file_digest(str(task.stage / name)) for name in done.outputs}
    except RidgepointError as error:
        return Result({}, failure=str(error), trace=traceback.format_exc())
    except Exception as error:
        # A defect of ours in one study must not stop the others.
        sentence = _sentence(task, error)
        return Result({}, failure=sentence, trace=traceback.format_exc())
    lost = sorted(name for name, digest in digests.items() if digest is None)
    if lost:
        return Result({}, failure=f"{task.id}: {lost[0]} could not be read back; build again.")
    outputs = {name: str(digest) for name, digest in sorted(digests.items())}
    return Result(outputs, done.notices)


def _sentence(task: Task, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return str(unwritable(error))
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        # What shutil.copytree collects: the source, the target and the reason of each file.
        _, target, reason = error.args[0][0]
        return str(unwritable(OSError(None, str(reason), str(target))))
    place = task.study or task.id
    return one_line(f"{place}: {type(error).__name__}: {error}; run again with --debug.")


def save(thing: Any, path: Path) -> None:
    """Write ``thing``, a tree of frozen values.

    Without pickle's memory of what it has written before, the bytes do not depend on whether two
    equal values happen to be one object.  Raises ``OSError``.
    """
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=5)
    pickler.fast = True
    pickler.dump(thing)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(stream.getvalue())


def load(path: Path) -> Any:
    """What ``save`` wrote.

    Only for files that a step of this build made or whose digest the manifest has confirmed, since
    unpickling runs code.  Raises ``OSError``.
    """
    return pickle.loads(path.read_bytes())


def files_in(stage: Path, folder: Path) -> tuple[str, ...]:
    """All files below ``folder``, relative to the stage and sorted."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return tuple(sorted(path.relative_to(stage).as_posix() for path in found))


def write_paper(stage: Path, study: str, content: bytes) -> tuple[str, ...]:
    """Write the PDF of a study wherever it belongs; returns the outputs."""
    names = paper_files(study)
    for name in names:
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).write_bytes(content)
    return names


def unwritable(error: OSError) -> OutputError:
    """A full disk, a folder without permission and the like, in one sentence."""
    place = f"{error.filename}: " if error.filename else "the output folder: "
    return OutputError(
        f"{place}cannot be written ({error.strerror or error}); make room for it or give write "
        "permission, and build again; the last whole output is in place."
    )
