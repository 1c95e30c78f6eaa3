"""Running the stale steps: in parallel, on a stage, and put in place when a study is whole.

A study that fails does not stop the others, and its old output stays where it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field
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
    rank: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    running: dict[str, Inputs] = field(default_factory=dict)
    failed: Result | None = None


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
        # What takes longest comes first, so that all workers are busy to the end.
        order = sorted(self._goal.studies, key=self._size, reverse=True)
        works = [_Work(s, self._stage / s, order.index(s)) for s in self._goal.studies]
        try:
            yield from self._run_all(works)
            yield from self._run_all([_Work("", self._stage / "shared")])
        finally:
            self._save()

    def _size(self, study: str) -> int:
        """Bytes of a study's records, which tell how long it takes before it has been built."""
        paths = (Path(self._world.places.of(name)) for name in self._goal.files.records[study])
        return sum(path.stat().st_size for path in paths if path.exists())

    def _run_all(self, works: list[_Work]) -> Iterator[Outcome]:
        changed = works
        while changed:
            for work in changed:
                self._waiting += self._ready(work)
            for work in dict.fromkeys((*changed, *self._start())):
                if not work.running:
                    yield self._finish(work)
            changed = self._collect()

    def _ready(self, work: _Work) -> list[_Ready]:
        """The stale steps that can run now; the fresh ones on the way are taken as they are."""
        found: dict[str, _Ready] = {}
        known = -1
        while work.failed is None and known != len(work.entries):
            known = len(work.entries)
            seen = work.entries if work.study else {**self.manifest.steps, **work.entries}
            for step in self._steps(work):
                if step.id in work.entries or step.id in work.running or step.id in found:
                    continue
                if not all(read.id in seen for read in step.reads):
                    continue
                inputs = inputs_of(step, self._world, seen)
                why = tuple(reasons(step, inputs, self.manifest, self._world))
                if why:
                    found[step.id] = _Ready(work.rank, next(self._numbers), work, step, why)
                    work.running[step.id] = inputs
                else:
                    work.entries[step.id] = self.manifest.steps[step.id]
                    self._progress.done(step)
        return list(found.values())

    def _steps(self, work: _Work) -> tuple[Step, ...]:
        if work.study:
            return self._goal.study_steps(work.study, work.entries, self._world)
        return self._goal.shared_steps(self.manifest.steps, self._world, ())

    def _start(self) -> list[_Work]:
        """Start as many steps as there are workers; returns the studies that failed before."""
        lost: list[_Work] = []
        while self._waiting and len(self._futures) < self._workers.jobs:
            ready = min(self._waiting)
            self._waiting.remove(ready)
            *_, work, step, why = ready
            alone = not (self._waiting or self._futures)
            if alone and step.action == "study":
                self._workers.expect("figure")
            self._explain(step, why)
            self._progress.starts(step)
            try:
                self._set_out(work, step)
            except RidgepointError as error:
                self._failed(work, step, Result({}, failure=str(error)))
                lost.append(work)
                continue
            future = self._workers.submit(self._task(work, step), alone=alone)
            self._futures[future] = (work, step)
        return lost

    def _set_out(self, work: _Work, step: Step) -> None:
        """Put on the stage what the step reads and no step of this build has made."""
        entries = work.entries if work.study else self.manifest.steps
        for read in step.reads:
            lay_out(entries[read.id].outputs, Path(self._world.places.out), work.stage)

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

    def _collect(self) -> list[_Work]:
        """Wait for a step to end and take in all that have; returns the studies of these."""
        changed: dict[_Work, None] = {}
        for future in wait(self._futures, return_when=FIRST_COMPLETED).done:
            work, step = self._futures.pop(future)
            changed[work] = None
            result = _result(future, step)
            if result.failure is None:
                inputs = work.running.pop(step.id)
                work.entries[step.id] = Entry(inputs, result.outputs, result.notices)
                self._progress.done(step)
            else:
                self._failed(work, step, result)
        return list(changed)

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
        """What the same steps, or figures that are drawn no more, have left in ``out``."""
        old = _outputs(self.manifest.steps[id] for id in self._replaced(work))
        return {name for name in old if name not in outputs}

    def _replaced(self, work: _Work) -> list[str]:
        """The entries of the manifest that this work's take the place of."""
        figures = f"{work.study}/figure/"
        return [
            id
            for id in self.manifest.steps
            if id in work.entries or (work.study and id.startswith(figures))
        ]

    def _remember(self, work: _Work) -> None:
        """Put into the manifest what is in place now."""
        replaced = set(self._replaced(work))
        kept = {id: entry for id, entry in self.manifest.steps.items() if id not in replaced}
        code = self._world.code
        closures = dict(self.manifest.closures)
        for step in self._steps(work):
            closures[work.entries[step.id].inputs.code] = code.closure(step.roots)
        manifest = Manifest({**kept, **work.entries}, closures)
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
