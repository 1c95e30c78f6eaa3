"""Running the stale steps: paper by paper on a stage, put in place when a paper is whole.

Papers are made beside each other, the steps of one after each other.  One that fails does not
stop the others, and its old output stays where it is.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Final

from report.engine.cache import Entry, write_manifest
from report.engine.pipeline import Announce, Explain, Outcome
from report.engine.place import lay_out, put, stage_in
from report.engine.plan import World, outputs_read
from report.engine.steps import Step
from report.engine.task import FailedStepError, Task, do
from report.errors import RidgepointError, unwritable
from report.system.processes import hold_signals

#: What became of a worker that did not live to give its result.
_KILLED: Final = (
    "its process was killed, as systems do for want of memory; build again with a smaller --jobs."
)


def run(
    world: World, stale: Mapping[str, str], announce: Announce, explain: Explain | None = None
) -> tuple[Outcome, ...]:
    """Build the studies of the request, then what all share; its outcome stands last.

    ``stale`` are the steps that may have to run, which say how far the build is at each moment.
    """
    papers = {id.partition("/")[0] for id in stale} - {"site"}
    jobs = max(1, min(world.request.jobs, len(papers)))
    with stage_in(world.request.out) as stage, _workers(jobs) as work:
        runner = _Runner(world, stage, work, announce, explain, stale)
        # What takes longest comes first, so that all workers are busy to the end.
        order = sorted(world.request.studies, key=runner.size, reverse=True)
        if jobs == 1:
            # In the main thread, so that a signal interrupts the work.
            outcomes = {study: runner.build(study) for study in order}
        else:
            with ThreadPoolExecutor(jobs) as threads:
                outcomes = dict(zip(order, threads.map(runner.build, order), strict=True))
        return (*(outcomes[study] for study in world.request.studies), runner.build("site"))


class _Runner:
    """Makes papers whole; what is in place is in the ``world``."""

    def __init__(
        self,
        world: World,
        stage: Path,
        work: Callable[[Task], Entry],
        announce: Announce,
        explain: Explain | None,
        stale: Iterable[str],
    ) -> None:
        self._world, self._stage, self._work = world, stage, work
        self._announce, self._explain = announce, explain
        self._left = {*stale}
        self._steps = len(self._left)
        #: Held by the thread that changes ``out/`` and the entries.
        self._placing = threading.Lock()

    def size(self, study: str) -> int:
        """Bytes of a study's data, which tell how long it takes before it has been built."""
        names = (name for name in self._world.files if name.startswith(f"data/{study}/"))
        return sum(Path(self._world.source(name)).stat().st_size for name in names)

    def build(self, study: str) -> Outcome:
        """Build one study, or what all share; a failure is in the outcome."""
        world, is_shared = self._world, study == "site"
        steps = world.shared_steps() if is_shared else world.study_steps(study)
        done: dict[str, Entry] = {}
        made: tuple[Path, ...] = ()
        failure: tuple[str, ...] = ()
        try:
            for step in steps:
                # What all share reads what studies have in place.
                done[step.id] = self._entry(step, world.made if is_shared else done)
                self._left.discard(step.id)
            with self._placing:
                made = tuple(self._put(study, done))
        except (FailedStepError, RidgepointError) as error:
            failure = error.args
        notices = tuple(notice for entry in done.values() for notice in entry.notices)
        return Outcome(study, made, notices, *failure)

    def _entry(self, step: Step, above: Mapping[str, Entry]) -> Entry:
        """What ``step`` makes from what is ``above``, or has made before; it is run if need be."""
        world, stage = self._world, self._stage / step.study
        now = world.inputs(step, above)
        why = world.reasons(step, now)
        if not why:
            return world.made[step.id]
        if self._explain:
            self._explain(step.id, why)
        self._announce(step.id, 1 - len(self._left) / max(self._steps, 1))
        stage.mkdir(exist_ok=True)
        lay_out((name for _, name in outputs_read(step, above)), world.request.out, stage)
        data, papers = world.request.data, world.request.papers
        task = Task(step.id, stage, data, papers, dict(step.settings), world.foreign(step))
        return self._work(task)._replace(inputs=now)

    def _put(self, study: str, done: Mapping[str, Entry]) -> list[Path]:
        """Put in place what ``done`` has made, and remember that it is there."""
        world, out, stage = self._world, self._world.request.out, self._stage / study
        old = {id: entry for id, entry in world.made.items() if id.startswith(f"{study}/")}
        new = _outputs(done.values())
        all_of_it = {**_outputs(old.values()), **new}
        there = {name: world.contents.digest(world.output(name)) for name in all_of_it}
        changed = {name for name in new if there[name] != new[name]}
        changed |= _outputs(old[id] for id in done if id in old).keys() - new.keys()
        made: list[Path] = []
        if changed:
            kept = (name for name in there if there[name] is not None and name not in changed)
            lay_out(kept, out, stage)
            made = put(stage, out, changed)
            # To put a file in place is to touch it.
            for name in all_of_it:
                world.contents.forget(world.output(name))
                world.contents.digest(world.output(name))
        if any(world.made.get(id) != entry for id, entry in done.items()):
            world.made.update(done)
            try:
                write_manifest(world.made, str(out))
            except OSError as error:
                raise unwritable(error) from error
        return made


def _outputs(entries: Iterable[Entry]) -> dict[str, str]:
    return {name: digest for entry in entries for name, digest in entry.outputs.items()}


@contextmanager
def _workers(jobs: int) -> Iterator[Callable[[Task], Entry]]:
    """Does tasks, in processes that end with this one, whatever they do; one alone needs none.

    New processes, not copies of this one: a copy could wait for ever for one of this one's threads,
    which are not copied.
    """
    if jobs == 1:
        yield do
        return
    context = get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent)

    def work(task: Task) -> Entry:
        try:
            return pool.submit(do, task).result()
        except (BrokenExecutor, OSError) as error:
            # An OSError, if the pool notices it at this very moment.
            raise FailedStepError(f"{task.id}: {_KILLED}") from error

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
