"""Running the stale steps: in parallel, on a stage, and put in place when a study is whole.

A study that fails does not stop the others, and its old output stays where it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from report.engine.manifest import Entry, Inputs, Manifest, behind_links, write_manifest
from report.engine.place import lay_out, put
from report.engine.plan import Goal, World, inputs_of, reasons
from report.engine.progress import Progress
from report.engine.step import Step
from report.engine.task import Result, Task, unwritable
from report.engine.workers import KILLED, Workers
from report.errors import RidgepointError

#: How much longer a build does other things than writing its manifest.
_BETWEEN_SAVES: Final = 20.0
#: Called with a step and why it is run.
Explain: TypeAlias = Callable[[Step, tuple[str, ...]], None]


@dataclass(frozen=True)
class Outcome:
    """What a build did with one study: what it replaced, what to say, or why it failed."""

    study: str
    made: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()
    failure: str | None = None
    trace: str = ""


@dataclass(eq=False)
class _Work:
    """The state of one study while it is built; the shared steps have the study «»."""

    study: str
    stage: Path
    steps: Mapping[str, Step]
    rank: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    running: dict[str, Inputs] = field(default_factory=dict)
    failed: Result | None = None

    def __post_init__(self) -> None:
        own = {
            step.id: [read.id for read in step.reads if read.id in self.steps]
            for step in self.steps.values()
        }
        self.order = TopologicalSorter(own)
        self.order.prepare()


class _Ready(NamedTuple):
    """A step that can run; of several the least is begun first, and ``number`` is its own."""

    rank: int
    number: int
    work: _Work
    step: Step
    why: tuple[str, ...]


class Runner:
    """Runs what is stale of a goal; ``manifest`` is what is in ``out``, and is written at times."""

    def __init__(
        self,
        goal: Goal,
        world: World,
        manifest: Manifest,
        stage: Path,
        workers: Workers,
        progress: Progress,
        explain: Explain,
    ) -> None:
        self._goal = goal
        self._world = world
        self.manifest = manifest
        self._stage = stage
        self._workers = workers
        self._progress = progress
        self._explain = explain
        self._unsaved, self._next_save = False, 0.0
        #: What can run and has not begun yet.
        self._waiting: list[_Ready] = []
        self._numbers = count()
        self._futures: dict[Future[Result], tuple[_Work, Step]] = {}

    def run(self) -> Iterator[Outcome]:
        """Build every study, then what all share; each outcome as it is finished."""
        goal, world = self._goal, self._world
        # What takes longest comes first, so that all workers are busy to the end.
        order = sorted(goal.studies, key=self._size, reverse=True)
        works = [
            self._work(study, goal.study_steps(study, world), order.index(study))
            for study in goal.studies
        ]
        try:
            yield from self._run_all(works)
            shared = goal.shared_steps(self.manifest.steps, world, ())
            yield from self._run_all([self._work("", shared)])
        finally:
            self._save()

    def _work(self, study: str, steps: Iterable[Step], rank: int = 0) -> _Work:
        stage = self._stage / (study or "shared")
        return _Work(study, stage, {step.id: step for step in steps}, rank)

    def _size(self, study: str) -> int:
        """Bytes of a study's records, which tell how long it takes before it has been built."""
        paths = (Path(self._world.places.of(name)) for name in self._goal.files.records[study])
        return sum(path.stat().st_size for path in paths if path.exists())

    def _run_all(self, works: list[_Work]) -> Iterator[Outcome]:
        while works:
            for work in works:
                self._advance(work)
            self._start()
            ended = [w for w in works if not w.running and (w.failed or not w.order.is_active())]
            for work in ended:
                yield self._finish(work)
            works = [work for work in works if work not in ended]
            if self._futures:
                self._collect()

    def _advance(self, work: _Work) -> None:
        """Queue the stale steps that can run now, and take fresh ones as they are."""
        while work.failed is None and (ids := work.order.get_ready()):
            for id in ids:
                step = work.steps[id]
                inputs = inputs_of(step, self._world, self._seen(work))
                if why := tuple(reasons(step, inputs, self.manifest, self._world)):
                    self._waiting.append(_Ready(work.rank, next(self._numbers), work, step, why))
                    work.running[id] = inputs
                else:
                    self._done(work, step, self.manifest.steps[id])

    def _seen(self, work: _Work) -> Mapping[str, Entry]:
        """The steps that those of ``work`` may read."""
        return work.entries if work.study else {**self.manifest.steps, **work.entries}

    def _done(self, work: _Work, step: Step, entry: Entry) -> None:
        work.entries[step.id] = entry
        work.order.done(step.id)
        self._progress.done(step)

    def _start(self) -> None:
        """Start as many steps as there are workers."""
        while self._waiting and len(self._futures) < self._workers.jobs:
            ready = min(self._waiting)
            self._waiting.remove(ready)
            *_, work, step, why = ready
            alone = not (self._waiting or self._futures)
            if alone and step.action == "study":
                self._workers.expect("figures")
            self._explain(step, why)
            self._progress.starts(step)
            try:
                # What no step of this build has made is put on the stage.
                seen = self._seen(work)
                for read in step.reads:
                    lay_out(seen[read.id].outputs, Path(self._world.places.out), work.stage)
            except RidgepointError as error:
                self._failed(work, step, Result({}, failure=str(error)))
                continue
            future = self._workers.submit(self._task(work, step), alone=alone)
            self._futures[future] = (work, step)

    def _task(self, work: _Work, step: Step) -> Task:
        places = self._world.places
        return Task(
            id=step.id,
            study=step.study,
            action=step.action,
            stage=work.stage,
            data=Path(places.data),
            papers=Path(places.papers),
            parameters=dict(step.parameters),
        )

    def _collect(self) -> None:
        """Wait for a step to end and take in all that have."""
        for future in wait(self._futures, return_when=FIRST_COMPLETED).done:
            work, step = self._futures.pop(future)
            result = _result(future, step)
            if result.failure is None:
                inputs = work.running.pop(step.id)
                self._done(work, step, Entry(inputs, result.outputs, result.notices))
            else:
                self._failed(work, step, result)

    def _failed(self, work: _Work, step: Step, result: Result) -> None:
        """Start no more steps of a study that has failed."""
        work.running.pop(step.id)
        work.failed = work.failed or result
        for ready in self._waiting:
            if ready.work is work:
                work.running.pop(ready.step.id)
        self._waiting = [ready for ready in self._waiting if ready.work is not work]

    def _finish(self, work: _Work) -> Outcome:
        """Put a study in place that is whole, or say why it is not."""
        notices = tuple(notice for entry in work.entries.values() for notice in entry.notices)
        if work.failed is not None:
            return Outcome(work.study, (), notices, work.failed.failure, work.failed.trace)
        try:
            made = self._put(work)
        except RidgepointError as error:
            return Outcome(work.study, (), notices, str(error))
        return Outcome(work.study, tuple(made), notices)

    def _put(self, work: _Work) -> list[Path]:
        places, contents = self._world.places, self._world.contents
        outputs = _outputs(work.entries.values())
        gone = self._given_up(work, outputs)
        changed = {n for n, d in outputs.items() if contents.digest(places.made(n)) != d}
        changed |= gone | behind_links(outputs, places.out)
        out = Path(places.out)
        if changed:
            lay_out((name for name in outputs if name not in changed), out, work.stage)
            made = put(work.stage, out, outputs, changed)
            for name in changed:
                contents.forget(places.made(name))
        else:
            made = []
        self._remember(work)
        return made

    def _given_up(self, work: _Work, outputs: Mapping[str, str]) -> set[str]:
        """What the same steps have left in ``out`` and make no more."""
        steps = self.manifest.steps
        old = _outputs(steps[id] for id in work.entries if id in steps)
        return {name for name in old if name not in outputs}

    def _remember(self, work: _Work) -> None:
        """Put into the manifest what is in place now."""
        code = self._world.code
        closures = dict(self.manifest.closures)
        for step in work.steps.values():
            closures[work.entries[step.id].inputs.code] = code.closure(step.roots)
        manifest = Manifest({**self.manifest.steps, **work.entries}, closures)
        self._unsaved |= manifest != self.manifest
        self.manifest = manifest
        if time.monotonic() >= self._next_save:
            self._save()

    def _save(self) -> None:
        """Write the manifest, which takes the longer the more studies there are.

        What is in place and not in it is made again by the next build, if this one is killed.
        """
        if not self._unsaved:
            return
        start = time.monotonic()
        try:
            write_manifest(self.manifest, self._world.places.out)
        except OSError as error:
            raise unwritable(error) from error
        end = time.monotonic()
        self._unsaved, self._next_save = False, end + _BETWEEN_SAVES * (end - start)


def _result(future: Future[Result], step: Step) -> Result:
    """The result of a step; one whose process did not live to say it has failed."""
    try:
        return future.result()
    except BrokenExecutor:
        return Result({}, failure=f"{step.id}: {KILLED}")


def _outputs(entries: Iterable[Entry]) -> dict[str, str]:
    return {name: digest for entry in entries for name, digest in entry.outputs.items()}
