"""What there is of the sweeps of a study: which shards are measured, queued or missing.

A job of SLURM says in its comment which shards its array measures, so that the queue can be asked
from any login; many clusters keep no accounts that could be asked instead.
"""

from __future__ import annotations

import getpass
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from experiments import registry
from experiments.harness.journal import Header, Journal, is_written, readable
from experiments.harness.text import last_line
from report.errors import MeasurementError
from report.records.pooling import unlike
from report.records.record import Head, Shard
from report.records.shards import OPTION, without_option
from report.records.store import list_records

State: TypeAlias = Literal["measured", "running", "unfinished", "missing"]


class ShardState(NamedTuple):
    """What there is of one shard, and the file that tells it.

    Of one that is not finished ``kept`` measurements are kept, each a case by itself, or a case in
    one process.
    """

    state: State = "missing"
    file: str = ""
    kept: int = 0


class Sweep(NamedTuple):
    """A sweep on one kind of machine, as the ``head`` of one of its shards tells it."""

    head: Header | Head
    shards: dict[int, ShardState]

    @property
    def shard(self) -> Shard:
        """One of its shards."""
        assert self.head.shard is not None
        return self.head.shard


def sweeps(study: str, records: Path) -> list[Sweep]:
    """All sweeps of a study, the newest last; raises ``RecordError`` as reading does."""
    found: list[Sweep] = []
    parts: list[tuple[Header | Head, ShardState]] = [
        (each.record, ShardState("measured", Path(each.file).name))
        for each in list_records(study, records)
    ]
    parts += [(each.header, _of_journal(each)) for each in readable(records / study)]
    for head, state in parts:
        if head.shard is None:
            continue
        mine = next((each for each in found if _is_same_sweep(each.head, head)), None)
        if mine is None:
            found.append(mine := Sweep(head, {}))
        there = mine.shards.get(head.shard.number, state)
        if state.state == "measured" or there.state != "measured":
            mine.shards[head.shard.number] = state
    return sorted(found, key=lambda each: each.head.started)


def _is_same_sweep(one: Header | Head, other: Header | Head) -> bool:
    """Whether two runs are shards of one, on machines of one kind."""
    a, b = one.shard, other.shard
    same = a is not None and b is not None and (a.sweep, a.of) == (b.sweep, b.of)
    return same and unlike(one, other) is None  # type: ignore[arg-type]


def _of_journal(journal: Journal) -> ShardState:
    kept = len(journal.finished) + len(journal.rounds)
    state: State = "running" if is_written(journal.path) else "unfinished"
    return ShardState(state, journal.path.name, kept)


def status(study: str, records: Path, say: Callable[[str], None]) -> int:
    """Say what there is of the sweeps of a study, and what to run next; the exit code."""
    registry.load(study)
    found, waiting = sweeps(study, records), {}
    try:
        waiting = queued(study)
    except MeasurementError as error:
        say(f"{error} A shard that is missing here may wait in the queue.")
    places = () if records == Path("data") else ("--records", str(records))
    for sweep in found:
        jobs = waiting.pop((sweep.shard.sweep, sweep.shard.of), {})
        say("\n".join(_lines(sweep, places, jobs)))
    for (_, of), jobs in waiting.items():
        say(f"{study}: {len(jobs)} of {of} shards are in the queue, and nothing is measured yet")
        say("\n".join(f"  shard {number}/{of}  {text}" for number, text in sorted(jobs.items())))
    if not found and not waiting:
        say(f"{study} has no sweep in {records}; begin one with:")
        words = ("python", "-m", "experiments", "run", study, *places, OPTION, "1/4")
        say(f"  {shlex.join(words)}")
    return 0


def _lines(sweep: Sweep, places: Sequence[str], jobs: Mapping[int, str]) -> Iterator[str]:
    """A head, a line for each shard, and the next commands; ``jobs`` are those in the queue."""
    head, of, nexts, states = sweep.head, sweep.shard.of, [], set()
    yield f"{head.study}, {head.protocol.plan} plan on {head.environment.key}"
    for number in range(1, of + 1):
        state, file, kept = sweep.shards.get(number, ShardState())
        idle = state in ("unfinished", "missing")
        word = "queued" if idle and number in jobs else state
        states.add(word)
        if word == state and idle:
            option = (OPTION, f"{number}/{of}", "--if-missing")
            nexts.append(f"  {shlex.join((*without_option(head.command), *places, *option))}")
        so_far = f"{kept} measurements in" if kept else ""
        job = f"({jobs[number]})" if number in jobs else ""
        cells = (f"shard {number}/{of}", f"{word:10}", so_far, file, job)
        yield f"  {'  '.join(filter(None, cells))}".rstrip()
    if nexts:
        yield from ("Next:", *nexts)
    elif states == {"measured"}:
        yield "All shards are measured; papers merge them."
    else:
        yield "All that is missing is being measured, or waits in the queue."


# -------------------------------------------------------------------------------------- the queue


def tag(study: str, sweep: Shard, numbers: Iterable[int]) -> str:
    """The comment of jobs whose array measures the shards ``numbers``, in this order from 0."""
    return f"ridgepoint:{study}:{sweep.sweep}:{sweep.of}:{','.join(map(str, numbers))}"


def queued(study: str) -> dict[tuple[str, int], dict[int, str]]:
    """What the jobs of this user do, by sweep and shard; nothing where there is no SLURM.

    Raises ``MeasurementError`` where SLURM is there and does not answer.
    """
    command = ["squeue", "--noheader", "--array", "--user", getpass.getuser()]
    command += ["--format", "%i|%T|%N|%l|%r|%k"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return {}
    if done.returncode != 0:
        said = last_line(done.stderr)
        raise MeasurementError(f"SLURM does not answer ({said}); try again later.")
    found: dict[tuple[str, int], dict[int, str]] = {}
    for line in done.stdout.splitlines():
        name, state, node, limit, why, comment = line.split("|", 5)
        if comment.startswith(f"ridgepoint:{study}:"):
            _, _, sweep, of, numbers = comment.split(":")
            number = int(numbers.split(",")[int(name.partition("_")[2] or 0)])
            where = f"on {node}" if node else f"({why})"
            text = f"{state.lower()} {where}, time limit {limit}"
            found.setdefault((sweep, int(of)), {})[number] = text
    return found
