"""Running the stale steps on a stage; a paper is put in place when it is whole.

Steps run side by side as soon as what they read is made, of one paper too.  A step that fails stops
its own paper alone, whose old output stays where it is.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Final, TypeVar

from report.engine.cache import Entry, write_manifest
from report.engine.pipeline import Announce, Explain, Outcome
from report.engine.place import lay_out, put, stage_in
from report.engine.plan import World, outputs_read
from report.engine.steps import SITE, Step
from report.engine.task import FailedStepError, Task, do
from report.errors import RidgepointError, unwritable

#: What became of a worker that did not live to give its result.
_KILLED: Final = (
    "its process was killed, as systems do for want of memory; build again with a smaller --jobs."
)
#: Why a step cannot begin, which no plan should let happen.
_UNMADE: Final = "no step makes what it reads; build again into an empty folder, with --out."
#: The steps of a paper that run beside each other.
_BESIDE: Final = ("/figures", "/document")
_Made = TypeVar("_Made")


def run(
    world: World, stale: Mapping[str, str], announce: Announce, explain: Explain | None = None
) -> tuple[Outcome, ...]:
    """Build the studies of the request, then what all share; its outcome stands last.

    ``stale`` are the steps that may have to run, which say how far the build is at each moment.
    """
    jobs = max(1, min(world.request.jobs, side_by_side(stale)))
    with stage_in(world.request.out) as stage, _workers(jobs) as workers:
        runner = _Runner(world, stage, workers, announce, explain, stale)
        steps = [step for study in world.request.studies for step in world.study_steps(study)]
        # What others read comes first: how long a study takes is known when it is computed.
        runner.run(sorted(steps, key=lambda step: bool(step.reads)), jobs)
        runner.done = {**world.made}  # what all share reads what studies have in place
        runner.run(world.shared_steps(), jobs)
        return tuple(runner.outcomes.get(s, Outcome(s)) for s in (*world.request.studies, SITE))


def side_by_side(stale: Iterable[str]) -> int:
    """How many of the steps ``stale`` can run at a time: one of each paper, or what it has more."""
    ids = [id for id in stale if not id.startswith(f"{SITE}/")]
    papers = {id.partition("/")[0] for id in ids}
    return max(len(papers), sum(id.endswith(_BESIDE) for id in ids))


class _Runner:
    """Makes papers whole; what is in place is in the ``world``.

    ``done`` are the steps that have run or need not, ``outcomes`` what became of papers.
    """

    def __init__(
        self,
        world: World,
        stage: Path,
        workers: Executor,
        announce: Announce,
        explain: Explain | None,
        stale: Iterable[str],
    ) -> None:
        self._world, self._stage, self._workers = world, stage, workers
        self._announce, self._explain = announce, explain
        self._left = {*stale}
        self._steps = max(len(self._left), 1)
        self._failed: dict[str, tuple[str, ...]] = {}
        self.done: dict[str, Entry] = {}
        self.outcomes: dict[str, Outcome] = {}

    def run(self, steps: Sequence[Step], jobs: int) -> None:
        """Run all steps, at most ``jobs`` at a time, and put each paper in place that is whole."""
        waiting = [*steps]
        running: dict[Future[Entry], Step] = {}
        unfinished = {step.study for step in steps}
        while unfinished:
            before = len(waiting)
            for step in [*waiting]:
                if len(running) < jobs and all(id in self.done for id, _ in step.reads):
                    waiting.remove(step)
                    if future := self._attempt(step.study, self._begin, step):
                        running[future] = step
            if not running and len(waiting) == before:
                self._failed |= {step.study: (f"{step.id}: {_UNMADE}",) for step in waiting}
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                step = running.pop(future)
                if entry := self._attempt(step.study, future.result):
                    self.done[step.id] = entry
            waiting = [step for step in waiting if step.study not in self._failed]
            for study in unfinished - {step.study for step in (*waiting, *running.values())}:
                unfinished.remove(study)
                self._finish(study, [step.id for step in steps if step.study == study])

    def _attempt(self, study: str, act: Callable[..., _Made], *arguments: object) -> _Made | None:
        """What ``act`` makes; if it cannot, nothing more is done for this paper."""
        try:
            return act(*arguments)
        except (FailedStepError, RidgepointError) as error:
            self._failed.setdefault(study, error.args)
        except (BrokenExecutor, OSError):
            # An OSError, if the pool notices it at this very moment.
            self._failed.setdefault(study, (f"{study}: {_KILLED}",))
        return None

    def _begin(self, step: Step) -> Future[Entry] | None:
        """Begin ``step``, unless it is fresh."""
        world, stage = self._world, self._stage / step.id
        now = world.inputs(step, self.done)
        why = world.reasons(step, now)
        if not why:
            self._left.discard(step.id)
            self.done[step.id] = world.made[step.id]
            return None
        if self._explain:
            self._explain(step.id, why)
        self._announce(step.id, 1 - len(self._left) / self._steps)
        self._left.discard(step.id)
        for id, name in outputs_read(step, self.done):
            lay_out([name], self._source(id, step.study), stage)
        task = Task(step.id, stage, world.request.data, world.request.papers, dict(step.settings))
        return self._workers.submit(do, task, now)

    def _source(self, id: str, study: str) -> Path:
        """Where ``study`` finds what a step has made: its own may have run in this build."""
        stage = self._stage / id
        return stage if id.startswith(f"{study}/") and stage.exists() else self._world.request.out

    def _finish(self, study: str, ids: Iterable[str]) -> None:
        """Put a paper in place of which no step is left."""
        done = {id: self.done[id] for id in ids if id in self.done}
        notices = tuple(notice for entry in done.values() for notice in entry.notices)
        made = [] if study in self._failed else self._attempt(study, self._put, study, done)
        failure = self._failed.get(study, ())
        self.outcomes[study] = Outcome(study, tuple(made or ()), notices, *failure)

    def _put(self, study: str, done: Mapping[str, Entry]) -> list[Path]:
        """Put in place what ``done`` has made, and remember that it is there."""
        world, out, whole = self._world, self._world.request.out, self._stage / study / "whole"
        old = {id: entry for id, entry in world.made.items() if id.startswith(f"{study}/")}
        new = _outputs(done.values())
        all_of_it = {**_outputs(old.values()), **new}
        there = {name: world.contents.digest(world.output(name)) for name in all_of_it}
        changed = {name for name in new if there[name] != new[name]}
        changed |= _outputs(old[id] for id in done if id in old).keys() - new.keys()
        made: list[Path] = []
        if changed:
            for id, entry in done.items():
                lay_out(changed & entry.outputs.keys(), self._source(id, study), whole)
            lay_out((n for n in there if there[n] is not None and n not in changed), out, whole)
            made = put(whole, out, changed)
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
def _workers(jobs: int) -> Iterator[Executor]:
    """Processes that end with this one, whatever they do; one job alone has a thread.

    New processes, not copies of this one: a copy could wait for ever for one of this one's threads,
    which are not copied.
    """
    if jobs == 1:
        with ThreadPoolExecutor(1) as thread:
            yield thread
        return
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_end_with_parent)
    try:
        for _ in range(jobs):
            pool.submit(os.getpid)  # which starts a process
        yield pool
    finally:
        # The pool itself does not end a worker that is started while another is killed
        # (Python 3.11), and would wait for it for ever.
        for worker in active_children():
            worker.kill()
        pool.shutdown(cancel_futures=True)


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
