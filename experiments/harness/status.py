"""What there is of the sweeps of a study: which shards are measured, queued or missing.

A job of SLURM says in its comment which shards its array measures, so that the queue can be asked
from any login; many clusters keep no accounts that could be asked instead.
"""

from __future__ import annotations

import getpass
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments import registry
from experiments.harness.journal import Journal, is_written, unfinished
from experiments.harness.text import last_line
from report.errors import MeasurementError
from report.records.pooling import OPTION, unlike, without_option
from report.records.record import Head, Shard
from report.records.store import list_records


class Part(NamedTuple):
    """A shard that is measured, running, unfinished or missing, and the file that tells it.

    Of one that is not finished ``kept`` measurements are kept, each a case by itself, or a case in
    one process.
    """

    state: str = "missing"
    file: str = ""
    kept: int = 0


def sweeps(study: str, records: Path) -> list[tuple[Head, dict[int, Part]]]:
    """The head of each sweep of a study on one kind of machine, and its shards, the newest last.

    Raises ``RecordError`` as reading does.
    """
    found: list[tuple[Head, dict[int, Part]]] = []
    # Records come last, since of a shard that is measured nothing else matters.
    runs = [(each.header, _of_journal(each)) for each in unfinished(records / study)[0]]
    for each in list_records(study, records):
        runs.append((each.record, Part("measured", Path(each.file).name)))
    for head, part in runs:
        if head.shard is not None:
            mine = next((parts for first, parts in found if _is_same_sweep(first, head)), None)
            if mine is None:
                found.append((head, mine := {}))
            mine[head.shard.number] = part
    return sorted(found, key=lambda sweep: sweep[0].started)


def _of_journal(journal: Journal) -> Part:
    kept = len(journal.finished) + len(journal.rounds)
    state = "running" if is_written(journal.path) else "unfinished"
    return Part(state, journal.path.name, kept)


def _is_same_sweep(one: Head, other: Head) -> bool:
    """Whether two runs are shards of one, on machines of one kind."""
    return sweep_of(one) == sweep_of(other) and unlike(one, other) is None


def sweep_of(head: Head) -> tuple[str, int]:
    """Which sweep a shard is of, as the queue names it."""
    assert head.shard is not None
    return head.shard.sweep, head.shard.of


def status(study: str, records: Path) -> int:
    """Print what there is of the sweeps of a study, and what to run next; the exit code."""
    registry.load(study)
    found, waiting = sweeps(study, records), dict[tuple[str, int], dict[int, str]]()
    try:
        waiting = queued(study)
    except MeasurementError as error:
        print(f"{error} A shard that is missing here may wait in the queue.")
    places = () if records == Path("data") else ("--records", str(records))
    for head, parts in found:
        print(f"{study}, {head.protocol.plan} plan on {head.environment.key}")
        print(*_lines(head, parts, places, waiting.pop(sweep_of(head), {})), sep="\n")
    for (_, of), jobs in waiting.items():
        print(f"{study}: {len(jobs)} of {of} shards are in the queue, and nothing is measured yet")
        print(*(f"  shard {n}/{of}  {text}" for n, text in sorted(jobs.items())), sep="\n")
    if not found and not waiting:
        words = ("python", "-m", "experiments", "run", study, *places, OPTION, "1/4")
        print(f"{study} has no sweep in {records}; begin one with:\n  {shlex.join(words)}")
    return 0


def _lines(
    head: Head, parts: Mapping[int, Part], places: Sequence[str], jobs: Mapping[int, str]
) -> Iterator[str]:
    """A line for each shard, and the next commands; ``jobs`` are those in the queue."""
    (_, of), nexts = sweep_of(head), []
    for number in range(1, of + 1):
        state, file, kept = parts.get(number, Part())
        if state in ("missing", "unfinished"):
            if number in jobs:
                state = "queued"
            else:
                option = (OPTION, f"{number}/{of}", "--if-missing")
                nexts.append(f"  {shlex.join((*without_option(head.command), *places, *option))}")
        so_far = f"{kept} measurements in" if kept else ""
        job = f"({jobs[number]})" if number in jobs else ""
        cells = (f"  shard {number}/{of}", f"{state:10}", so_far, file, job)
        yield "  ".join(filter(None, cells)).rstrip()
    if nexts:
        yield from ("Next:", *nexts)


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
