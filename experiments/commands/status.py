"""What there is of the sweeps of a study: which shards are measured, queued or missing.

A job of SLURM says in its comment which shards its array measures, so that the queue can be asked
from any login; many clusters keep no accounts that could be asked instead.
"""

from __future__ import annotations

import shlex
import subprocess
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments import registry
from experiments.harness.journal import is_in_use, unfinished_journals
from experiments.machine import code
from experiments.machine.text import last_line
from report.errors import MeasurementError
from report.records.pooling import OPTION, unlike, without_option
from report.records.record import Head, Shard
from report.records.store import digest, survey


class Part(NamedTuple):
    """A shard that is measured, running, unfinished or missing, and the file that tells it.

    Of one not finished ``kept`` measurements are kept, each a case by itself or in one process.
    """

    state: str = "missing"
    file: str = ""
    kept: int = 0


def sweeps(study: str, records: Path) -> list[tuple[Head, dict[int, Part]]]:
    """The head of each sweep of a study on one kind of machine, and its shards, the newest last.

    Raises ``RecordError`` as reading does.
    """
    found: list[tuple[Head, dict[int, Part]]] = []

    def take(head: Head, part: Part) -> None:
        if head.shard is None:
            return
        alike = (p for h, p in found if tags(h) == tags(head) and unlike(h, head) is None)
        if (parts := next(alike, None)) is None:
            found.append((head, parts := dict.fromkeys(range(1, head.shard.of + 1), Part())))
        parts[head.shard.number] = part

    for journal in unfinished_journals(records / study)[0]:
        state = "running" if is_in_use(journal.path) else "unfinished"
        kept = len(journal.finished) + len(journal.rounds)
        take(journal.header, Part(state, journal.path.name, kept))
    # Records come last, since of a shard that is measured nothing else matters.
    for stored in survey(study, records, Head)[0]:
        take(stored.record, Part("measured", Path(stored.file).name))
    return sorted(found, key=lambda sweep: sweep[0].started)


def shards(study: str, records: Path, sweep: str) -> Mapping[int, Part]:
    """The shards of the sweep with this tag by today's code, on the newest kind of machine."""
    today = code.identify(study)[0].measuring_code
    for head, parts in reversed(sweeps(study, records)):
        if sweep in tags(head) and head.code.measuring_code == today:
            return parts
    return dict.fromkeys(range(1, int(sweep.split(":")[3]) + 1), Part())


def status(options: Namespace) -> int:
    """Print what there is of the sweeps of a study, and what to run next; the exit code."""
    study, records = options.study, options.records
    registry.load(study)
    places = () if records == Path("data") else ("--records", str(records))
    try:
        waiting = queued(study)
    except MeasurementError as error:
        waiting = {}
        print(f"{error} A shard that is missing here may wait in the queue.")
    found = sweeps(study, records)
    for head, parts in found:
        print(f"{study}, {head.protocol.plan} plan on {head.environment.key}")
        jobs = {n: text for name in tags(head) for n, text in waiting.pop(name, {}).items()}
        print(*_lines(head, parts, places, jobs), sep="\n")
    for sweep, jobs in waiting.items():
        of = sweep.split(":")[3]
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
    nexts = []
    for number, (state, file, kept) in sorted(parts.items()):
        shard, job = f"{number}/{len(parts)}", jobs.get(number)
        now = "queued" if job and state in ("missing", "unfinished") else state
        if now in ("missing", "unfinished"):
            option = (OPTION, shard, "--if-missing")
            nexts.append(f"  {shlex.join((*without_option(head.command), *places, *option))}")
        so_far = f"{kept} measurements in" if kept else ""
        cells = (f"  shard {shard}", f"{now:10}", so_far, file, job and f"({job})")
        yield "  ".join(filter(None, cells)).rstrip()
    yield from ("Next:", *nexts) if nexts else ()


def tag(study: str, shard: Shard | None, threads: int | None, label: str | None) -> str:
    """The sweep of a shard; in the comment of a job the shards of its array follow, from 0 on."""
    asked = digest(f"{threads} {label}".encode())[:8]  # a label may hold any character
    return f"ridgepoint:{study}:{shard.sweep}:{shard.of}:{asked}:" if shard else ""


def tags(head: Head) -> set[str]:
    """How the sweep may have been asked for: with its threads, or without if they are usual."""
    here = head.environment
    asked = {here.threads, None if here.threads == here.cpu.cores_available else here.threads}
    return {tag(head.study, head.shard, threads, here.name) for threads in asked}


def queued(study: str) -> dict[str, dict[int, str]]:
    """What the jobs of this user do, by sweep and shard; nothing where there is no SLURM.

    Raises ``MeasurementError`` where SLURM is there and does not answer.
    """
    command = ["squeue", "--noheader", "--array", "--me", "--format", "%i|%T|%N|%l|%r|%k"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return {}
    if done.returncode != 0:
        raise MeasurementError(f"SLURM does not answer ({last_line(done.stderr)}); try later.")
    found: dict[str, dict[int, str]] = {}
    for line in done.stdout.splitlines():
        name, state, node, limit, why, comment = line.split("|", 5)
        if comment.startswith(f"ridgepoint:{study}:"):
            sweep, colon, numbers = comment.rpartition(":")
            number = int(numbers.split(",")[int(name.partition("_")[2] or 0)])
            text = f"{state.lower()} {f'on {node}' if node else f'({why})'}, time limit {limit}"
            found.setdefault(sweep + colon, {})[number] = text
    return found
