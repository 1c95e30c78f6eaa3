"""Running the stale steps: paper by paper on a stage, put in place when a paper is whole.

Papers are made beside each other, the steps of one after each other.  One that fails does not
stop the others, and its old output stays where it is.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Final

from report.engine.cache import Entry, behind_links, write_manifest
from report.engine.pipeline import Announce, Explain, Outcome
from report.engine.place import lay_out, put, stage_in
from report.engine.plan import Verdict, World, chosen, inputs_of, reasons
from report.engine.steps import Step
from report.engine.task import Result, Task, do
from report.errors import RidgepointError, unwritable
from report.system.processes import hold_signals

#: What became of a worker that did not live to give its result.
_KILLED: Final = (
    "its process was killed, as systems do for want of memory; build again with a smaller --jobs."
)
#: What each kind of step is called, and the seconds that it usually takes.
_KINDS: Final = {
    "study": ("tables and values", 3.0),
    "samples": ("samples", 2.0),
    "figures": ("figures", 3.0),
    "document": ("document", 2.5),
    "pdf": ("PDF", 4.0),
    "index": ("list of studies", 0.6),
    "quarto": ("Quarto project", 0.2),
}


def run(
    world: World,
    verdicts: Iterable[Verdict],
    announce: Announce,
    explain: Explain | None = None,
) -> tuple[Outcome, ...]:
    """Build the studies of the request, then what all share; its outcome stands last.

    ``verdicts`` say what is stale, and so how far the build is at each moment.
    """
    stale = [verdict.step for verdict in verdicts if not verdict.fresh]
    papers = {step.study for step in stale if step.study}
    jobs = max(1, min(world.request.jobs, len(papers)))
    with stage_in(world.request.out) as stage, _workers(jobs) as work:
        runner = _Runner(world, stage, work, _Progress(announce, stale), explain)
        # What takes longest comes first, so that all workers are busy to the end.
        order = sorted(world.request.studies, key=runner.size, reverse=True)
        if jobs == 1:
            # In the main thread, so that a signal interrupts the work.
            outcomes = {study: runner.build(study) for study in order}
        else:
            with ThreadPoolExecutor(jobs) as threads:
                outcomes = dict(zip(order, threads.map(runner.build, order), strict=True))
        return (*(outcomes[study] for study in world.request.studies), runner.build(""))


class _Progress:
    """How far a build is, by the seconds that steps of each kind usually take."""

    def __init__(self, announce: Announce, planned: Iterable[Step]) -> None:
        self._announce = announce
        self._left = {step.id: _KINDS[step.action][1] for step in planned}
        self._all = sum(self._left.values()) or 1.0
        self._share = 0.0

    def starts(self, step: Step) -> None:
        """A step begins; the share of what is done never falls."""
        self._share = max(self._share, 1 - sum(self._left.values()) / self._all)
        self._announce(f"{step.study or 'all studies'}: {_KINDS[step.action][0]}", self._share)

    def done(self, step: Step) -> None:
        """A step has ended, or was fresh."""
        self._left.pop(step.id, None)


class _Runner:
    """Makes papers whole; what is in place is among the entries of the ``world``."""

    def __init__(
        self,
        world: World,
        stage: Path,
        work: Callable[[Task], Result],
        progress: _Progress,
        explain: Explain | None,
    ) -> None:
        self._world, self._stage, self._work = world, stage, work
        self._progress, self._explain = progress, explain
        #: Held by the thread that changes ``out/`` and the entries.
        self._placing = threading.Lock()

    def size(self, study: str) -> int:
        """Bytes of a study's data, which tell how long it takes before it has been built."""
        names = (n for n in self._world.names if n.startswith(f"data/{study}/"))
        return sum(Path(self._world.source(name)).stat().st_size for name in names)

    def build(self, study: str) -> Outcome:
        """Build one study, or what all share; a failure is in the outcome."""
        stage = self._stage / (study or "shared")
        steps = self._world.study_steps(study) if study else self._world.shared_steps()
        done: dict[str, Entry] = {}
        try:
            for step in steps:
                result = self._step(step, stage, done)
                self._progress.done(step)
                if result is not None:
                    return Outcome(study, (), _notices(done), result.failure, result.trace)
            with self._placing:
                made = self._put(done, stage)
        except RidgepointError as error:
            return Outcome(study, (), _notices(done), str(error))
        return Outcome(study, tuple(made), _notices(done))

    def _step(self, step: Step, stage: Path, done: dict[str, Entry]) -> Result | None:
        """Add the entry of ``step`` to ``done``, or return the result of its failure."""
        world = self._world
        # What all share reads what studies have in place.
        seen = done if step.study else world.entries
        now = inputs_of(step, world, seen)
        why = tuple(reasons(step.id, now, world))
        if not why:
            done[step.id] = world.entries[step.id]
            return None
        if self._explain:
            self._explain(step, why)
        self._progress.starts(step)
        stage.mkdir(exist_ok=True)
        for id, prefixes in step.reads:
            lay_out((name for name, _ in chosen(seen[id], prefixes)), world.request.out, stage)
        places = (stage, world.request.data, world.request.papers)
        result = self._work(Task(step.id, step.study, step.action, *places, dict(step.parameters)))
        if result.failure is not None:
            return result
        done[step.id] = now._replace(outputs=result.outputs, notices=result.notices)
        return None

    def _put(self, done: dict[str, Entry], stage: Path) -> list[Path]:
        """Put in place what ``done`` has made, and remember that it is there."""
        world, out = self._world, str(self._world.request.out)
        outputs = _outputs(done.values())
        before = _outputs(world.entries[id] for id in done if id in world.entries)
        there = {name: world.contents.digest(world.made(name)) for name in outputs}
        changed = {name for name in outputs if there[name] != outputs[name]}
        changed |= (before.keys() - outputs.keys()) | behind_links(outputs, out)
        made: list[Path] = []
        if changed:
            lay_out((name for name in outputs if name not in changed), Path(out), stage)
            made = put(stage, Path(out), changed)
            # To put a file in place is to touch it.
            for name in outputs:
                world.contents.forget(world.made(name))
                world.contents.digest(world.made(name))
        if any(world.entries.get(id) != entry for id, entry in done.items()):
            world.entries.update(done)
            try:
                write_manifest(world.entries, out)
            except OSError as error:
                raise unwritable(error) from error
        return made


def _outputs(entries: Iterable[Entry]) -> dict[str, str]:
    return {name: digest for entry in entries for name, digest in entry.outputs.items()}


def _notices(done: dict[str, Entry]) -> tuple[str, ...]:
    return tuple(notice for entry in done.values() for notice in entry.notices)


@contextmanager
def _workers(jobs: int) -> Iterator[Callable[[Task], Result]]:
    """Does tasks, in processes that end with this one, whatever they do; one alone needs none.

    New processes, not copies of this one: a copy could wait for ever for one of this one's threads,
    which are not copied.
    """
    if jobs == 1:
        yield do
        return
    context = get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent)

    def work(task: Task) -> Result:
        try:
            return pool.submit(do, task).result()
        except (BrokenExecutor, OSError):
            # An OSError, if the pool notices it at this very moment.
            return Result({}, failure=f"{task.id}: {_KILLED}")

    try:
        with hold_signals():
            for _ in range(jobs):
                pool.submit(_import_actions)
        yield work
    finally:
        # The pool itself does not end a worker that is started while another is killed
        # (Python 3.11), and would wait for it for ever.
        for worker in active_children():
            worker.kill()
        pool.shutdown(cancel_futures=True)


def _import_actions() -> None:
    """Import what steps need while the other processes start."""
    from figures import render
    from report.render import html

    assert render and html


def _end_with_parent() -> None:
    """End this worker when the build is killed; its queue would keep it waiting for ever.

    Ctrl-C in a terminal is for the build, which then ends its workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:

        def end() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=end, daemon=True).start()
