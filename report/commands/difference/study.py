"""Each study on both sides: left alone where its data are the same, computed where they differ."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from report.commands.difference.compare import Changes, FileChange, compare, differing
from report.commands.difference.side import Side, inputs_of, read_side
from report.engine.workers import KILLED, Processes
from report.errors import RidgepointError

if TYPE_CHECKING:
    from report.engine.pipeline import Request

Age: TypeAlias = Literal["old", "new"]
Announce: TypeAlias = Callable[[str, float], None]
_AGES: Final[tuple[Age, ...]] = ("old", "new")


@dataclass(frozen=True)
class Refused:
    """Why one side of a study cannot be computed, in one sentence, and the traceback as text."""

    age: Age
    sentence: str
    trace: str = ""


@dataclass(frozen=True)
class Compared:
    """A study that was computed on both sides."""

    old: Side
    new: Side
    changes: Changes


@dataclass(frozen=True)
class Studied:
    """The outcome of one study: nothing was computed where ``files``, the data, are the same."""

    study: str
    files: tuple[FileChange, ...] = ()
    compared: Compared | None = None
    refused: tuple[Refused, ...] = ()


class _Task(NamedTuple):
    study: str
    age: Age
    data: Path
    papers: Path


def study_all(request: Request, old: Path, announce: Announce) -> tuple[Studied, ...]:
    """The outcome of every study of ``request`` between the data directories ``old`` and its own.

    What goes wrong in one study is in its outcome and does not stop the others.
    """
    files = {
        study: differing(inputs_of(study, old), inputs_of(study, request.data))
        for study in request.studies
    }
    folders: dict[Age, Path] = {"old": old, "new": request.data}
    tasks = [
        _Task(study, age, folders[age], request.papers)
        for study in request.studies
        if files[study]
        for age in _AGES
    ]
    found: dict[tuple[str, Age], Side | Refused] = {}
    for task, side in _done(tasks, request.jobs):
        found[task.study, task.age] = side
        announce(f"{task.study}: computed from the {task.age} data", len(found) / len(tasks))
    return tuple(_outcome(study, files[study], found) for study in request.studies)


def _outcome(
    study: str,
    files: tuple[FileChange, ...],
    found: dict[tuple[str, Age], Side | Refused],
) -> Studied:
    if not files:
        return Studied(study)
    old, new = found[study, "old"], found[study, "new"]
    if isinstance(old, Side) and isinstance(new, Side):
        return Studied(study, files, Compared(old, new, compare(old, new)))
    refused = tuple(side for side in (old, new) if isinstance(side, Refused))
    return Studied(study, files, refused=refused)


def _done(tasks: list[_Task], jobs: int) -> Iterator[tuple[_Task, Side | Refused]]:
    """Each side as it is finished, in worker processes if there are several."""
    if min(len(tasks), jobs) < 2:
        yield from ((task, _side(task)) for task in tasks)
        return
    with Processes(min(jobs, len(tasks))) as processes:
        futures = {processes.submit(_side, task): task for task in tasks}
        for future in as_completed(futures):
            task = futures[future]
            try:
                yield task, future.result()
            except BrokenExecutor:
                yield task, Refused(task.age, f"{task.study}: {KILLED}")


def _side(task: _Task) -> Side | Refused:
    try:
        return read_side(task.study, task.data, task.papers)
    except RidgepointError as error:
        return Refused(task.age, str(error), traceback.format_exc())
    except Exception as error:
        # Today's code may meet in old data what it does not expect.
        sentence = f"{task.study}: {type(error).__name__}: {error}; run again with --debug."
        return Refused(task.age, sentence, traceback.format_exc())
