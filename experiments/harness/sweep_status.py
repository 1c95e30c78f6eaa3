"""What there is of the sweeps of a study: which shards are measured, unfinished or missing."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from experiments import registry
from experiments.harness import queue
from experiments.harness.journal import Header, RunLog, is_written, journals, read_run_log
from experiments.harness.rounds import turns
from report.errors import MeasurementError
from report.records.pooling import unlike
from report.records.record import Head, Shard
from report.records.shards import (
    OPTION,
    measures_case,
    measures_process,
    runs_of,
    without_option,
)
from report.records.store import Listed, list_records

State: TypeAlias = Literal["measured", "running", "unfinished", "missing"]

#: What begins a command of this program.
PROGRAM: Final = ("python", "-m", "experiments", "run")


@dataclass(frozen=True)
class ShardState:
    """What there is of one shard: ``done`` of ``planned`` measurements, and what tells it.

    A measurement is a case by itself, or a case in one process.
    """

    number: int
    state: State
    done: int
    planned: int
    place: str = ""


@dataclass(frozen=True)
class SweepState:
    """A sweep on one kind of machine; ``command`` is that of the whole run."""

    key: str
    shard: Shard
    plan: str
    code: str
    cases: int
    processes: int
    command: tuple[str, ...]
    shards: tuple[ShardState, ...]

    @property
    def left(self) -> tuple[ShardState, ...]:
        """The shards that are not measured."""
        return tuple(each for each in self.shards if each.state != "measured")

    def command_for(self, number: int, places: Sequence[str] = ()) -> str:
        """The command that measures a shard, or goes on with it."""
        words = [*self.command, *places, OPTION, f"{number}/{self.shard.of}", "--if-missing"]
        return shlex.join(words)


def sweeps(study: str, records: Path) -> tuple[SweepState, ...]:
    """All sweeps of a study, the newest last; raises ``RecordError`` as reading does."""
    runs = [run for run in runs_of(list_records(study, records)) if run.record.shard is not None]
    logs = [log for path in journals(records / study) if (log := read_shard(path)) is not None]
    found: list[tuple[Header | Head, list[Listed], list[tuple[Path, RunLog]]]] = [
        (run.record, list(run.parts), []) for run in runs
    ]
    for path, log in logs:
        mine = next((each for each in found if is_same_sweep(each[0], log.header)), None)
        if mine is None:
            mine = (log.header, [], [])
            found.append(mine)
        mine[2].append((path, log))
    found.sort(key=lambda each: each[0].started)
    return tuple(_state(*each) for each in found)


def read_shard(path: Path) -> tuple[Path, RunLog] | None:
    """A journal with what it holds; None for one of a whole run, or that cannot be read."""
    with suppress(MeasurementError, OSError):  # of another version, or done meanwhile
        log = read_run_log(path)
        return (path, log) if log.header.shard is not None else None
    return None


def is_same_sweep(one: Header | Head, other: Header | Head) -> bool:
    """Whether two runs are shards of one, on machines of one kind."""
    a, b = one.shard, other.shard
    same = a is not None and b is not None and (a.sweep, a.of) == (b.sweep, b.of)
    return same and unlike(one, other) is None  # type: ignore[arg-type]


def _state(
    head: Header | Head, parts: Sequence[Listed], logs: Sequence[tuple[Path, RunLog]]
) -> SweepState:
    shard = head.shard
    assert shard is not None
    cases = len(parts[0].outcomes) if parts else len(logs[0][1].header.cases)
    every = turns(head.protocol.processes)
    measured = {p.record.shard.number: p for p in parts if p.record.shard is not None}
    unfinished = {log.header.shard.number: (p, log) for p, log in logs if log.header.shard}
    timed = registry.load(head.study).has_times

    def state(number: int) -> ShardState:
        mine = Shard(number=number, of=shard.of, sweep=shard.sweep)
        own = sum(measures_case(mine, index) for index in range(cases))
        rounds = sum(measures_process(mine, turn.process) for turn in every) * cases * timed
        if number in measured:
            file = measured[number].file.rpartition("/")[2]
            return ShardState(number, "measured", own + rounds, own + rounds, file)
        if number not in unfinished:
            return ShardState(number, "missing", 0, own + rounds)
        path, log = unfinished[number]
        done = min(len(log.finished) + len(log.rounds), own + rounds)
        word: State = "running" if is_written(path) else "unfinished"
        return ShardState(number, word, done, own + rounds, path.name)

    return SweepState(
        key=head.environment.key,
        shard=shard,
        plan=head.protocol.plan,
        code=head.code.measuring_code,
        cases=cases,
        processes=len(every) if timed else 0,
        command=without_option(head.command),
        shards=tuple(state(number) for number in range(1, shard.of + 1)),
    )


def status(study: str, records: Path, say: Callable[[str], None]) -> int:
    """Say what there is of the sweeps of a study, and what to run next; the exit code."""
    registry.load(study)
    found, waiting = sweeps(study, records), {}
    try:
        waiting = queue.queued(study)
    except MeasurementError as error:
        say(f"{error} A shard that is missing here may wait in the queue.")
    places = () if records == Path("data") else ("--records", str(records))
    for sweep in found:
        jobs = waiting.pop((sweep.shard.sweep, sweep.shard.of), {})
        say("\n".join(_lines(study, sweep, places, jobs)))
    for (_, of), jobs in waiting.items():
        say(f"{study}: {len(jobs)} of {of} shards are in the queue, and nothing is measured yet")
        say("\n".join(f"  shard {number}/{of}  {text}" for number, text in sorted(jobs.items())))
    if not found and not waiting:
        say(f"{study} has no sweep in {records}; begin one with:")
        say(f"  {shlex.join([*PROGRAM, study, *places, OPTION, '1/4'])}")
    return 0


def _lines(
    study: str, sweep: SweepState, places: Sequence[str], jobs: Mapping[int, str]
) -> list[str]:
    """A head, a line for each shard, and the next commands; ``jobs`` are those in the queue."""
    processes = f", {sweep.processes} processes" if sweep.processes else ""
    head = f"{study}, {sweep.plan} plan on {sweep.key}: {sweep.cases} cases{processes}"
    rows, nexts = [], []
    for each in sweep.shards:
        here = each.state in ("measured", "running")
        word = each.state if here or each.number not in jobs else "queued"
        if word in ("unfinished", "missing"):
            nexts.append(f"  {sweep.command_for(each.number, places)}")
        done = f"{each.done:5} of {each.planned:5} measurements"
        row = f"  shard {each.number}/{sweep.shard.of}  {word:10}  {done}  {each.place}".rstrip()
        rows.append(f"{row}  ({jobs[each.number]})" if each.number in jobs else row)
    if not sweep.left:
        return [head, *rows, "All shards are measured; papers merge them."]
    if not nexts:
        return [head, *rows, "All that is missing is being measured, or waits in the queue."]
    return [head, *rows, "Next:", *nexts]
