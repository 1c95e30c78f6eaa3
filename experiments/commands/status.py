"""Print which shards of a study are measured, queued or missing.

A sweep is a run that is divided into parts, the shards.  A head is a shard's record without its
measurements.  A tag identifies a sweep by study, cases, number of shards, and options.

The comment of a SLURM job consists of the tag of its sweep and the numbers of the shards in its
array.  So the queue shows the shards on any login node, even where SLURM keeps no accounts.
"""

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
from report.core.errors import MeasurementError
from report.core.records.pooling import SHARD_OPTION, why_not_pooled, without_option
from report.core.records.record import Head, Shard
from report.core.records.store import digest, read_usable_records


class ShardState(NamedTuple):
    """State of a shard, name of its record or journal, and number of results in the journal."""

    state: str = "missing"  # or: measured, running, unfinished
    file: str = ""
    result_count: int = 0


def sweeps(study: str, records: Path) -> list[tuple[Head, dict[int, ShardState]]]:
    """List the sweeps of a study, oldest first.

    Each sweep is listed as the head of one shard, and the states of all shards.  Shards are of one
    sweep if papers pool their records.  Raises ``RecordError`` for an unreadable record.
    """
    listed: list[tuple[Head, dict[int, ShardState]]] = []

    def add(head: Head, state: ShardState) -> None:
        if head.shard is None:
            return
        for earlier, states in listed:
            if tags(earlier) == tags(head) and why_not_pooled(earlier, head) is None:
                states[head.shard.number] = state
                return
        states = {number: ShardState() for number in range(1, head.shard.of + 1)}
        states[head.shard.number] = state
        listed.append((head, states))

    journals, _ = unfinished_journals(records / study)
    for journal in journals:
        state = "running" if is_in_use(journal.path) else "unfinished"
        result_count = len(journal.finished_cases) + len(journal.rounds)
        add(journal.header, ShardState(state, journal.path.name, result_count))
    # Records after journals: the state "measured" replaces "running" and "unfinished".
    usable_records, _ = read_usable_records(study, records)
    for stored in usable_records:
        add(stored.record, ShardState("measured", Path(stored.file).name))
    return sorted(listed, key=lambda sweep: sweep[0].started)


def shard_states(study: str, records: Path, sweep_tag: str) -> Mapping[int, ShardState]:
    """Return the shards' states in the newest sweep with this tag and the current code.

    If there is no such sweep, all shards are missing.
    """
    current_code, _ = code.identify(study)
    for head, states in reversed(sweeps(study, records)):
        is_current = head.code.measuring_code == current_code.measuring_code
        if is_current and sweep_tag in tags(head):
            return states
    return {number: ShardState() for number in range(1, _shard_count(sweep_tag) + 1)}


def status(options: Namespace) -> int:
    """Print the state of the sweeps of a study and the next commands; return the exit code 0."""
    study, records = options.study, options.records
    registry.load(study)  # raises an error for an unknown study
    records_option = () if records == Path("data") else ("--records", str(records))
    try:
        jobs_by_tag = queued_jobs(study)
    except MeasurementError as error:
        jobs_by_tag = {}
        print(f"{error} A shard that is missing here may wait in the queue.")
    existing = sweeps(study, records)
    for head, states in existing:
        print(f"{study}, {head.protocol.plan} plan on {head.environment.key}")
        jobs: dict[int, str] = {}
        for sweep_tag in tags(head):
            jobs |= jobs_by_tag.pop(sweep_tag, {})
        print(*_shard_lines(head, states, records_option, jobs), sep="\n")
    for sweep_tag, jobs in jobs_by_tag.items():
        total = _shard_count(sweep_tag)
        print(f"{study}: {len(jobs)} of {total} shards are in the queue, none is measured yet")
        for number, text in sorted(jobs.items()):
            print(f"  shard {number}/{total}  {text}")
    if not existing and not jobs_by_tag:
        command = ("python", "-m", "experiments", "run", study, *records_option)
        first = shlex.join((*command, SHARD_OPTION, "1/4"))
        print(f"No shard of {study} is measured in {records}; start with:\n  {first}")
    return 0


def _shard_lines(
    head: Head, states: Mapping[int, ShardState], options: Sequence[str], jobs: Mapping[int, str]
) -> Iterator[str]:
    """Yield a line per shard, and the next commands; ``jobs`` maps shards to jobs in the queue."""
    commands = []
    for number, (state, file, result_count) in sorted(states.items()):
        shard, job = f"{number}/{len(states)}", jobs.get(number)
        is_waiting = state in ("missing", "unfinished")
        if is_waiting and not job:
            command = (*without_option(head.command, SHARD_OPTION), *options)
            commands.append(f"  {shlex.join((*command, SHARD_OPTION, shard, '--if-missing'))}")
        state_text = f"{'queued' if is_waiting and job else state:10}"
        results = f"{result_count} measurements in" if result_count else ""
        cells = (f"  shard {shard}", state_text, results, file, job and f"({job})")
        yield "  ".join(cell for cell in cells if cell).rstrip()
    if commands:
        yield from ("Next:", *commands)


def tag(study: str, shard: Shard | None, threads: int | None, label: str | None) -> str:
    """Return the tag that identifies the sweep of ``shard`` in the queue; empty without a shard."""
    options = digest(f"{threads} {label}".encode())[:8]  # a label may contain any character
    return f"ridgepoint:{study}:{shard.sweep}:{shard.of}:{options}:" if shard else ""


def _shard_count(sweep_tag: str) -> int:
    """Parse the number of shards from a tag that ``tag`` wrote."""
    _, _study, _sweep, shard_count, *_ = sweep_tag.split(":")
    return int(shard_count)


def tags(head: Head) -> set[str]:
    """Return the tags that a sweep may have: the default ``--threads`` may be given or omitted."""
    facts = head.environment
    is_default = facts.threads == facts.cpu.cores_available
    options = {facts.threads, None if is_default else facts.threads}
    return {tag(head.study, head.shard, threads, facts.name) for threads in options}


def queued_jobs(study: str) -> dict[str, dict[int, str]]:
    """Describe this user's queued jobs by tag of the sweep, then by shard; empty without SLURM.

    Raises ``MeasurementError`` if SLURM does not answer.
    """
    command = ["squeue", "--noheader", "--array", "--me", "--format", "%i|%T|%N|%l|%r|%k"]
    try:
        queue = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return {}
    if queue.returncode != 0:
        raise MeasurementError(f"SLURM does not answer ({last_line(queue.stderr)}); try later.")
    jobs: dict[str, dict[int, str]] = {}
    for line in queue.stdout.splitlines():
        job_id, state, node, limit, reason, comment = line.split("|", 5)
        if comment.startswith(f"ridgepoint:{study}:"):
            sweep_tag, colon, numbers = comment.rpartition(":")
            index = int(job_id.partition("_")[2] or 0)  # SLURM names a job of an array JOB_INDEX
            shard = int(numbers.split(",")[index])
            node_or_reason = f"on {node}" if node else f"({reason})"
            text = f"{state.lower()} {node_or_reason}, time limit {limit}"
            jobs.setdefault(sweep_tag + colon, {})[shard] = text
    return jobs
