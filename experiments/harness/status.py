"""What there is of the sweeps of a study: which shards are measured, queued or missing.

A job of SLURM says in its comment which shards its array measures, so that the queue can be asked
from any login; many clusters keep no accounts that could be asked instead.
"""

from __future__ import annotations

import getpass
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from experiments import registry
from experiments.harness.journal import Header, RunLog, is_written, journals, read_run_log
from experiments.harness.rounds import turns
from experiments.harness.text import last_line
from report.errors import MeasurementError
from report.records.pooling import unlike
from report.records.record import Head, Shard
from report.records.shards import OPTION, measures_case, measures_process, runs_of, without_option
from report.records.store import Listed, list_records

State: TypeAlias = Literal["measured", "running", "unfinished", "missing"]


class ShardState(NamedTuple):
    """What there is of one shard: ``done`` of ``planned`` measurements, and the file that tells it.

    A measurement is a case by itself, or a case in one process.
    """

    number: int
    state: State
    done: int
    planned: int
    file: str = ""


class Sweep(NamedTuple):
    """A sweep on one kind of machine, as the ``head`` of one of its shards tells it."""

    head: Header | Head
    cases: int
    processes: int
    shards: tuple[ShardState, ...]


def sweeps(study: str, records: Path) -> tuple[Sweep, ...]:
    """All sweeps of a study, the newest last; raises ``RecordError`` as reading does."""
    found: list[tuple[Header | Head, int, dict[int, Listed], dict[int, tuple[Path, RunLog]]]] = []
    for run in runs_of(list_records(study, records)):
        if run.record.shard is not None:
            measured = {p.record.shard.number: p for p in run.parts if p.record.shard}
            found.append((run.record, len(run.outcomes), measured, {}))
    for path in journals(records / study):
        with suppress(MeasurementError, OSError):  # of another version, or done meanwhile
            log = read_run_log(path)
            header = log.header
            if header.shard is not None:
                mine = next((each for each in found if _is_same_sweep(each[0], header)), None)
                if mine is None:
                    mine = (header, len(header.cases), {}, {})
                    found.append(mine)
                mine[3][header.shard.number] = (path, log)
    return tuple(_sweep(*each) for each in sorted(found, key=lambda each: each[0].started))


def _is_same_sweep(one: Header | Head, other: Header | Head) -> bool:
    """Whether two runs are shards of one, on machines of one kind."""
    a, b = one.shard, other.shard
    same = a is not None and b is not None and (a.sweep, a.of) == (b.sweep, b.of)
    return same and unlike(one, other) is None  # type: ignore[arg-type]


def _sweep(
    head: Header | Head,
    cases: int,
    measured: Mapping[int, Listed],
    begun: Mapping[int, tuple[Path, RunLog]],
) -> Sweep:
    assert head.shard is not None
    every = turns(head.protocol.processes) if registry.load(head.study).has_times else ()

    def state(shard: Shard) -> ShardState:
        planned = sum(measures_case(shard, index) for index in range(cases))
        planned += sum(measures_process(shard, turn.process) for turn in every) * cases
        number = shard.number
        if number in measured:
            file = measured[number].file.rpartition("/")[2]
            return ShardState(number, "measured", planned, planned, file)
        if number not in begun:
            return ShardState(number, "missing", 0, planned)
        path, log = begun[number]
        done = min(len(log.finished) + len(log.rounds), planned)
        word: State = "running" if is_written(path) else "unfinished"
        return ShardState(number, word, done, planned, path.name)

    shards = (msgspec.structs.replace(head.shard, number=n + 1) for n in range(head.shard.of))
    return Sweep(head, cases, len(every), tuple(map(state, shards)))


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
        shard = sweep.head.shard
        assert shard is not None
        jobs = waiting.pop((shard.sweep, shard.of), {})
        say("\n".join(_lines(sweep, shard.of, places, jobs)))
    for (_, of), jobs in waiting.items():
        say(f"{study}: {len(jobs)} of {of} shards are in the queue, and nothing is measured yet")
        say("\n".join(f"  shard {number}/{of}  {text}" for number, text in sorted(jobs.items())))
    if not found and not waiting:
        say(f"{study} has no sweep in {records}; begin one with:")
        words = ("python", "-m", "experiments", "run", study, *places, OPTION, "1/4")
        say(f"  {shlex.join(words)}")
    return 0


def _lines(sweep: Sweep, of: int, places: Sequence[str], jobs: Mapping[int, str]) -> Iterator[str]:
    """A head, a line for each shard, and the next commands; ``jobs`` are those in the queue."""
    head, nexts = sweep.head, []
    processes = f", {sweep.processes} processes" if sweep.processes else ""
    plan, key = head.protocol.plan, head.environment.key
    yield f"{head.study}, {plan} plan on {key}: {sweep.cases} cases{processes}"
    for each in sweep.shards:
        here = each.state in ("measured", "running")
        word = each.state if here or each.number not in jobs else "queued"
        if word in ("unfinished", "missing"):
            option = (OPTION, f"{each.number}/{of}", "--if-missing")
            nexts.append(f"  {shlex.join((*without_option(head.command), *places, *option))}")
        done = f"{each.done:5} of {each.planned:5} measurements"
        row = f"  shard {each.number}/{of}  {word:10}  {done}  {each.file}".rstrip()
        yield f"{row}  ({jobs[each.number]})" if each.number in jobs else row
    if nexts:
        yield from ("Next:", *nexts)
    elif all(each.state == "measured" for each in sweep.shards):
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
