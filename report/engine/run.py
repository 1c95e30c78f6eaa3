"""Running the stale steps on a stage; a paper is put in place when it is whole.

Papers are built side by side, and of one paper the steps that do not read each other.  A step that
fails stops its own paper alone, whose old output stays where it is.
"""

from __future__ import annotations

import errno
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Final, NamedTuple

from report.core.errors import RidgepointError, in_the_way, one_line, unwritable
from report.engine import actions
from report.engine.cache import MANIFEST, Entry, file_digest, write_manifest
from report.engine.pipeline import PLACING, Announce, Failure, World, outputs_read
from report.engine.place import lay_out, put, stage_in
from report.engine.steps import SITE, Step

#: What became of a worker that did not live to give its result.
_KILLED: Final = (
    "its process was killed, as systems do for want of memory; build with more of it or --jobs 1."
)
#: Copies of this process start at once, but only Linux's libraries stand it.
_START: Final = "fork" if sys.platform == "linux" else "spawn"
#: What takes long to import, by the kind of the steps that do.
_IMPORTED: Final = {
    "study": ("report.engine.gather", "report.core.records.frames"),
    "figures": ("figures.render",),
    "document": ("report.paper.manuscript", "report.render.html", "report.render.typst"),
}

#: What the system says when a folder is full, or may not be written.
_NO_ROOM: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG}
)


class FailedStepError(Exception):
    """Why a step failed: one sentence, and its traceback as text.

    As text, because an error that comes from a worker process has lost its own.
    """


def run(
    world: World, stale: Mapping[str, str], announce: Announce
) -> tuple[dict[str, Sequence[Path]], list[Failure]]:
    """Build the studies of the request, then what all share.

    ``stale`` are the steps that may have to run, which say how far the build is at each moment.
    Returns what was replaced of each study, and why others could not be built.
    """
    studies = world.request.studies
    jobs = max(1, min(world.request.jobs, len(stale)))
    if not (world.made or world.index.used) and os.path.lexists(world.output(MANIFEST)):
        raise in_the_way(world.output(MANIFEST))
    with stage_in(world.request.out) as stage, _workers(jobs, stage, stale) as workers:
        builder = _Builder(world, stage, workers, announce, {*stale}, len(stale), threading.Lock())
        with ThreadPoolExecutor(len(studies)) as papers:
            steps = map(world.study_steps, studies)
            outcomes = dict(zip(studies, papers.map(builder.build, studies, steps), strict=True))
        for room in {id.partition("/")[0] for id in world.left()} - {*studies, SITE}:
            outcome = builder.build(room, ())
            outcomes |= {room: outcome} if isinstance(outcome, Failure) else {}
        outcomes[SITE] = builder.build(SITE, world.shared_steps())
    failed = [outcome for outcome in outcomes.values() if isinstance(outcome, Failure)]
    return {s: made for s, made in outcomes.items() if not isinstance(made, Failure)}, failed


class _Builder(NamedTuple):
    """Makes papers whole, each in a thread; what is in place is in the ``world``.

    ``left`` are the steps that have not begun, of ``stale`` in all.  ``one`` thread at a time looks
    at files, says something or puts a paper in place.
    """

    world: World
    stage: Path
    workers: Executor
    announce: Announce
    left: set[str]
    stale: int
    one: threading.Lock

    def build(self, study: str, steps: Iterable[Step]) -> Sequence[Path] | Failure:
        """Run the ``steps`` of a paper as soon as what they read is made, and put it in place."""
        try:
            return self._put(study, self._done(steps))
        except (FailedStepError, RidgepointError) as error:
            return Failure(study, *error.args)
        except (BrokenExecutor, OSError):
            # An OSError, if the pool notices it at this very moment.
            return Failure(study, f"{study}: {_KILLED}")
        except Exception as error:
            return Failure(study, _sentence(study, error), traceback.format_exc())

    def _done(self, steps: Iterable[Step]) -> dict[str, Entry]:
        """What the steps have made; those that are fresh are not run."""
        done: dict[str, Entry] = {}
        running: dict[str, Future[Entry]] = {}
        for step in steps:
            done |= {id: running.pop(id).result() for id, _ in step.reads if id in running}
            with self.one:
                made = {**self.world.made, **done}
                now = self.world.inputs(step, made)
                if why := self.world.reasons(step, now):
                    running[step.id] = self._begin(step, now, why, made)
                else:
                    done[step.id] = self.world.made[step.id]
                self.left.discard(step.id)
        return done | {id: future.result() for id, future in running.items()}

    def _begin(
        self, step: Step, now: Mapping[str, str], why: str, made: Mapping[str, Entry]
    ) -> Future[Entry]:
        self.announce(step.id, 1 - len(self.left) / self.stale, why)
        stage, request = self.stage / step.id, self.world.request
        for id, name in outputs_read(step, made):
            lay_out([name], self.place_of(id, step.study), stage)
        task = actions.Task(step.id, stage, request.data, request.papers, dict(step.settings))
        return self.workers.submit(do, task, now)

    def place_of(self, id: str, study: str) -> Path:
        """Where ``study`` finds what a step has made: its own may have run in this build."""
        stage = self.stage / id
        return stage if id.startswith(f"{study}/") and stage.exists() else self.world.request.out

    def _put(self, study: str, done: Mapping[str, Entry]) -> list[Path]:
        """Put in place what ``done`` has made, and remember that it is there."""
        world, out, whole = self.world, self.world.request.out, self.stage / study / "whole"
        with self.one:
            old = {id: entry for id, entry in world.made.items() if id.startswith(f"{study}/")}
            before, new = _outputs(old.values()), _outputs(done.values())
            placing = f"{study}/{PLACING}"
            replaced = {*done, *world.left()} & old.keys()
            all_of_it = {**before, **new}
            there = {name: world.index.digest(world.output(name)) for name in all_of_it}
            changed = {name for name in new if there[name] != new[name]}
            changed |= _outputs(old[id] for id in replaced).keys() - new.keys()
            for id, entry in done.items():
                lay_out(changed & entry.outputs.keys(), self.place_of(id, study), whole)
            if changed:
                lay_out((n for n in there if there[n] and n not in changed), out, whole)
            if added := new.keys() - before.keys():
                # If the build is killed now, the next one knows which files are none of the user's.
                listed = Entry({}, {name: new[name] for name in added})
                self._remember({**world.made, placing: listed})
            made = put(whole, out, changed, all_of_it if world.index.used else before)
            for name in all_of_it if changed else ():
                world.index.forget(world.output(name))  # to put a file in place is to touch it
            steps = {id: e for id, e in world.made.items() if id not in {*replaced, placing}}
            if steps | {**done} != world.made:
                self._remember(steps | {**done})
        return made

    def _remember(self, steps: dict[str, Entry]) -> None:
        """Let these be the steps that were made, here and in the manifest."""
        self.world.made, out = steps, self.world.request.out
        try:
            write_manifest(steps, str(out))
        except OSError as error:
            raise unwritable(error, place=out / MANIFEST) from error


def _outputs(entries: Iterable[Entry]) -> dict[str, str]:
    return {name: digest for entry in entries for name, digest in entry.outputs.items()}


def do(task: actions.Task, inputs: Mapping[str, str]) -> Entry:
    """Run a step; returns what it made from its ``inputs``, or raises ``FailedStepError``.

    What it reads of earlier steps is on its stage and among its inputs as ``out/…``.
    """
    gc.disable()  # a step ends soon, and a tenth of it would be the search for cycles
    try:
        task.stage.mkdir(parents=True, exist_ok=True)
        notices = getattr(actions, task.id.partition("/")[2])(task)
    except Exception as error:
        # A defect of ours in one study must not stop the others.  The stage is gone when this is
        # read; it stands for the folder in which it lies.
        said = _sentence(task.study, error).replace(str(task.stage), str(task.stage.parents[2]))
        raise FailedStepError(said, traceback.format_exc()) from error
    finally:
        gc.enable()
    files = sorted(path for path in task.stage.rglob("*") if path.is_file())
    outputs = {path.relative_to(task.stage).as_posix(): file_digest(str(path)) for path in files}
    if lost := [name for name, digest in outputs.items() if digest is None]:
        raise FailedStepError(f"out/{lost[0]}: it could not be read back; build again.", "")
    new = {name: str(digest) for name, digest in outputs.items() if f"out/{name}" not in inputs}
    return Entry(inputs, new, notices or ())


def _sentence(study: str, error: Exception) -> str:
    if isinstance(error, RidgepointError):
        return str(error)
    if isinstance(error, shutil.Error) or (isinstance(error, OSError) and error.errno in _NO_ROOM):
        return str(unwritable(error))
    found = f"{study}: {type(error).__name__}: {error}"
    # What all studies share reads what an earlier version may have made of one.
    all_of_them = "build all studies (python build.py), or " if study == SITE else ""
    return one_line(f"{found}; {all_of_them}run again with --debug.")


@contextmanager
def _workers(jobs: int, stage: Path, stale: Iterable[str]) -> Iterator[Executor]:
    """Processes that end with this one, whatever they do, and leave their temporary files there.

    All begin before this one has a thread, since a copy could wait for it for ever.  What several
    steps import is imported once before.
    """
    kinds = Counter(id.partition("/")[2] for id in stale)
    for kind in (kind for kind, count in kinds.items() if _START == "fork" and count > 1):
        for module in _IMPORTED.get(kind, ()):
            import_module(module)
    pool = ProcessPoolExecutor(jobs, get_context(_START), _begin_work, (stage,))
    try:
        for _ in range(jobs):
            pool.submit(os.getpid)  # which starts a process
        yield pool
    finally:
        # The pool would wait for ever for one that is started while another is killed.
        for worker in active_children():
            worker.kill()
        pool.shutdown(cancel_futures=True)


def _begin_work(stage: Path) -> None:
    """Let this worker end when the build is killed; its queue would keep it waiting for ever.

    Ctrl-C in a terminal, and its end, are for the build, which then ends its workers.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.environ["TMPDIR"] = tempfile.tempdir = str(stage)
    parent = parent_process()
    if parent is not None:

        def end() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=end, daemon=True).start()
