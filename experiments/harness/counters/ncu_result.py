"""What ncu and the profiled program left behind, case by case; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.harness.counters.ncu_child import Note, ranges
from experiments.harness.counters.plan import Counted, Job
from experiments.harness.text import last_line
from report.instruments.counters.ncu_logs import logs_of
from report.instruments.counters.ncu_output import (
    CountersUnavailable,
    KernelRow,
    complaint,
    read_table,
)


@dataclass(frozen=True)
class Output:
    """The log file of ncu, what else was printed, and the notes of the profiled program."""

    log: str
    said: str
    notes: tuple[Note, ...]


_NO_RANGES: Final = CountersUnavailable(
    "ranges",
    "ncu recorded kernels but none of our NVTX ranges, so that they belong to no case; use a "
    "PyTorch built with NVTX.",
)


def settled(output: Output, jobs: Sequence[Job]) -> tuple[Counted, ...] | CountersUnavailable:
    """The cases that this process counted or failed at, in the order of ``jobs``.

    If it ended early, the case at which it did has failed, and later ones are not among them.
    """
    rows = read_table(output.log)
    said = _said(output)
    if isinstance(rows, CountersUnavailable):
        return said or rows
    if not any(row.range for row in rows):
        return _NO_RANGES
    ended = said.reason if said else "The profiled program ended during this case; run it again."
    return tuple(_settled(output, rows, jobs, ended))


def _settled(
    output: Output, rows: Sequence[KernelRow], jobs: Sequence[Job], ended: str
) -> Iterator[Counted]:
    launched = {row.range for row in rows}
    for job in jobs:
        own = notes_of(job, output.notes)
        failed = next((note.reason for note in own if note.status != "ok"), None)
        if failed is None and len(own) < job.calls:
            yield Counted(case=job.case, logs={}, reason=ended)
            return
        if failed is None and not launched.issuperset(ranges(job)):
            failed = "No kernel ran on the GPU during this case."
        logs = {} if failed else logs_of(output.log, ranges(job))
        yield Counted(case=job.case, logs=logs, reason=failed)


def notes_of(job: Job, notes: Sequence[Note]) -> tuple[Note, ...]:
    """What was noted of a case: a line for each call that is done, or why it failed."""
    return tuple(note for note in notes if note.range in ranges(job))


def has_run(job: Job, notes: Sequence[Note]) -> bool:
    """Whether a case is over, well or not."""
    own = notes_of(job, notes)
    return len(own) == job.calls or any(note.status != "ok" for note in own)


def _said(output: Output) -> CountersUnavailable | None:
    """ncu's complaint; if the program failed, with the program's own last words."""
    said = complaint(f"{output.log}\n{output.said}")
    if said is None or said.kind != "application":
        return said
    own = "\n".join(line for line in output.said.splitlines() if not line.startswith("=="))
    reason = f"The profiled program failed under ncu ({last_line(own)}); mend that first."
    return CountersUnavailable("application", reason)
