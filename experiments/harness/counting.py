"""The last step of a run: the executed work of its cases, by whatever counts it on this machine.

Nothing here is timed, and nothing that is timed runs meanwhile.  What has been counted of a case
stands in the journal before the next one ends, so that an interrupted run is continued here too.

valgrind's lackey needs no hardware counters.  One process of it serves all cases, since importing
torch takes a minute under it, and each process that it forks writes a log of its own.  One thread a
process; as many cases at once as there are cores.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from experiments import registry
from experiments.harness import ncu, runtime
from experiments.harness.journal import Called, Count, Done, Failed, Journal, RunLog
from experiments.harness.measure import layers_of_case, subject_of
from experiments.harness.processes import working
from experiments.harness.progress import Observer
from experiments.harness.study import Device, Factors, Session, Study
from experiments.harness.text import factors_text, last_line, period_text, without_paths
from experiments.harness.worker import Role, Task
from report.errors import MeasurementError, RecordError
from report.instruments.counters import lackey as lackey_logs
from report.instruments.counters import ncu_logs
from report.instruments.counters.logs import CaseLogs, attachment_name, pack
from report.records.record import Attachment, Case, Series
from report.records.store import digest
from report.theory.work import macs

_LACKEY: Final = ("--tool=lackey", "--basic-counts=no", "--detailed-counts=yes")
_NOT_ASKED: Final = "the run was not asked to count executed work (--counters none)"


@dataclass(frozen=True)
class Job:
    """A case to count, how often it is called, and the multiply-adds of all calls."""

    case: int
    calls: int
    work: int


def _nothing_missing(logs: Mapping[str, str], place: str) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Tool:
    """A program that counts: where, how it is run, and how what it prints is read.

    ``quantities`` are those that a case has in any event, the one to tell of first; ``meaning``
    that of the file beside the record.  Cases of at most ``twice`` multiply-adds are called twice,
    which separates what the first call does besides, of at most ``once`` once, and others not,
    unless all is asked for.  ``series`` and ``missing`` read the logs of a case: what they say, and
    for each quantity that they do not give, the reason.
    """

    name: str
    role: Role
    device: Device
    quantities: tuple[str, ...]
    meaning: str
    unavailable: Callable[[], str | None]
    count: Callable[[Task], Iterator[Count | None]]
    twice: float
    once: float
    series: Callable[[Mapping[str, str], str], tuple[Series, ...]]
    missing: Callable[[Mapping[str, str], str], Mapping[str, str]] = _nothing_missing

    def calls(self, work: int, thorough: bool) -> int:
        """How often a case of so many multiply-adds is called."""
        return 2 if thorough or work <= self.twice else int(work <= self.once)


def lackey_unavailable() -> str | None:
    """Why nothing can be counted here, with the remedy; None where it can."""
    if not hasattr(os, "fork"):
        return "valgrind does not run on this system"
    if shutil.which("valgrind") is None:
        return "valgrind is not installed; install it with: apt-get install valgrind"
    return None


def count_with_lackey(task: Task) -> Iterator[Count | None]:
    """Run ``task`` under lackey and tell of every case as it is done; None for each tick.

    Raises ``MeasurementError`` with what valgrind or torch said last, if all of it fails.  Closing
    the generator ends all processes.
    """

    def under(folder: Path) -> tuple[str, ...]:
        return ("valgrind", *_LACKEY, f"--log-file={folder}/%p.log")

    processes: dict[int, dict[str, int]] = {}
    failed: dict[int, str] = {}
    with working(task, {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}, under) as running:
        for message in running.messages():
            match message:
                case Called(case=case, role=role, pid=pid):
                    processes.setdefault(case, {})[role] = pid
                case Failed(case=case, reason=reason):
                    failed.setdefault(case, reason)
                case Done(case=case, reason=ended):
                    why = failed.get(case) or ended
                    pids = {} if why else processes.pop(case, {})
                    logs = {role: _log(running.folder, pid) for role, pid in sorted(pids.items())}
                    yield Count(tool=lackey_logs.TOOL, case=case, logs=logs, reason=why)
                case _:
                    yield None
        code, said = running.process.returncode, running.said()
    if code != 0:
        raise MeasurementError(f"lackey ended with exit code {code}: {last_line(said)}")


def _log(folder: Path, pid: int) -> str:
    return without_paths((folder / f"{pid}.log").read_text(errors="replace"))


TOOLS: Final = (
    Tool(
        name=lackey_logs.TOOL,
        role="lackey",
        device="cpu",
        quantities=(lackey_logs.MULTIPLY_ADDS,),
        meaning="the logs of valgrind's lackey for each case that it counted, by process",
        unavailable=lackey_unavailable,
        count=count_with_lackey,
        # A call is a thousand times slower, and a full plan stays within minutes: 16 images of
        # the layer of conv_scaling forward, 8 backward; 64 forward.
        twice=260e6,
        once=700e6,
        series=lackey_logs.series_of,
    ),
    Tool(
        name=ncu_logs.TOOL,
        role="ncu",
        device="cuda",
        quantities=ncu_logs.QUANTITIES,
        meaning="the table that Nsight Compute printed, cut to each case that it counted",
        unavailable=ncu.unavailable,
        count=ncu.count,
        # Each kernel is only replayed; more work is that of networks, with a thousand of them.
        twice=60e9,
        once=math.inf,
        series=ncu_logs.series_of,
        missing=ncu_logs.missing_of,
    ),
)


@dataclass
class Outcome:
    """What counting adds to a record: series by case, files beside it, and reasons."""

    series: dict[int, tuple[Series, ...]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)

    def added(self, cases: Iterable[Case]) -> tuple[Case, ...]:
        """The cases with what was counted of them."""
        return tuple(
            msgspec.structs.replace(case, series=(*case.series, *self.series.get(index, ())))
            for index, case in enumerate(cases)
        )


def count(
    study: Study,
    session: Session,
    run_log: RunLog,
    journal: Journal,
    observer: Observer,
    tools: Iterable[Tool] = TOOLS,
) -> Outcome:
    """Count what the run asks for and the journal does not hold yet.

    What cannot be counted is missing with its reason; only interruptions are raised.
    """

    def counted(tool: Tool, jobs: tuple[Job, ...]) -> str | None:
        reason = tool.unavailable()
        if reason is None:
            try:
                _follow(tool, _task(tool, jobs, session, run_log), run_log, journal, observer)
            except (MeasurementError, RecordError, OSError) as error:
                reason = str(error)
        if reason is not None:
            observer.note(f"{tool.name} counts nothing here: {reason}.")
        return reason

    return _gathered(study, run_log, tools, counted)


def kept(study: Study, run_log: RunLog, reason: str) -> Outcome:
    """What the journal of a run holds that cannot go on; the rest is missing with ``reason``."""
    return _gathered(study, run_log, TOOLS, lambda tool, jobs: reason)


def _gathered(
    study: Study,
    run_log: RunLog,
    tools: Iterable[Tool],
    act: Callable[[Tool, tuple[Job, ...]], str | None],
) -> Outcome:
    """What the tools of the device have counted, tool by tool.

    ``act`` does what is left to do, and says why nothing, or no more, is counted, if so.
    """
    outcome = Outcome()
    for tool in tools:
        if tool.device != run_log.header.environment.device:
            continue
        reason = None
        if study.subject is not None and run_log.header.counters == "none":
            reason = _NOT_ASKED
        elif jobs := jobs_of(tool, study, run_log):
            reason = act(tool, jobs)
        if reason is not None:
            outcome.missing |= dict.fromkeys(tool.quantities, reason)
        _gather(tool, run_log, outcome)
    return outcome


def _task(tool: Tool, jobs: tuple[Job, ...], session: Session, run_log: RunLog) -> Task:
    header = run_log.header
    gpu = header.environment.gpu
    return Task(
        role=tool.role,
        session=session,
        module=registry.STUDIES[header.study],
        cases=tuple((job.case, header.cases[job.case]) for job in jobs),
        calls=tuple(job.calls for job in jobs),
        at_once=runtime.cores_available(),
        compute_capability=gpu.compute_capability if gpu else "",
    )


def jobs_of(tool: Tool, study: Study, run_log: RunLog) -> tuple[Job, ...]:
    """The cases to count that ended well and are not counted yet, longest first."""
    if study.subject is None:
        return ()
    thorough = run_log.header.counters == "all"
    jobs = []
    for index, factors in enumerate(run_log.header.cases):
        measured = run_log.finished.get(index)
        if (tool.name, index) in run_log.counts or measured is None or measured.status != "ok":
            continue
        if study.is_counted(factors, thorough):
            work = multiply_adds(study, factors)
            calls = tool.calls(work, thorough)
            jobs += [Job(index, calls, calls * work)] if calls else []
    return tuple(sorted(jobs, key=lambda job: (-job.work, job.case)))


def multiply_adds(study: Study, factors: Factors) -> int:
    """Those of one call by its layers; backward there are about twice as many again."""
    mode = subject_of(study, factors, "meta").mode
    passes = 3 if mode in ("forward_backward", "step") else 1
    return passes * sum(map(macs, layers_of_case(study, factors)))


def _follow(tool: Tool, task: Task, run_log: RunLog, journal: Journal, observer: Observer) -> None:
    """Run a tool to its end, with every case in the journal as soon as it is counted."""
    observer.note(f"Counting the executed work of {len(task.cases)} cases with {tool.name}.")
    began, done = time.monotonic(), 0
    with closing(tool.count(task)) as events:  # type: ignore[type-var]
        for event in events:
            if event is None:
                observer.progressed(None, done / len(task.cases), "")
                continue
            journal.append(event)
            run_log.add(event)
            done += 1
            left = (time.monotonic() - began) / done * (len(task.cases) - done)
            text = f"{factors_text(run_log.header.cases[event.case])}: {_result(tool, event)}"
            observer.progressed(text, done / len(task.cases), period_text(left))


def _result(tool: Tool, event: Count) -> str:
    if event.reason is not None:
        return event.reason
    series = tool.series(event.logs, tool.name)
    shown = next((item for item in series if item.quantity == tool.quantities[0]), series[-1])
    return f"{shown.samples[0]:,} {shown.unit}"


def _gather(tool: Tool, run_log: RunLog, outcome: Outcome) -> None:
    """Read the logs of every case; what cannot be read is missing, with what is wrong."""
    kept: list[CaseLogs] = []
    missing: dict[int, Mapping[str, str]] = {}
    for (name, index), line in sorted(run_log.counts.items()):
        if name != tool.name:
            continue
        if line.reason is not None:
            outcome.missing |= _of_case(index, dict.fromkeys(tool.quantities, line.reason))
            continue
        kept.append(CaseLogs(case=index, logs=line.logs))
        place = f"{tool.name}, case {index}"
        try:
            outcome.series[index] = tool.series(line.logs, place)
            missing[index] = tool.missing(line.logs, place)
        except RecordError as error:
            outcome.missing |= _of_case(index, dict.fromkeys(tool.quantities, str(error)))
    outcome.missing |= _once(missing)
    if kept:
        file = attachment_name(tool.name)
        outcome.files[file] = content = pack(tool.name, kept)
        entry = Attachment(name=file, sha256=digest(content), meaning=tool.meaning)
        outcome.attachments = (*outcome.attachments, entry)


def _of_case(index: int, reasons: Mapping[str, str]) -> dict[str, str]:
    return {f"cases[{index}].{quantity}": reason for quantity, reason in reasons.items()}


def _once(missing: Mapping[int, Mapping[str, str]]) -> dict[str, str]:
    """What all cases lack for the same reason under the quantity alone, the rest by case."""
    per_case = [set(reasons.items()) for reasons in missing.values()]
    common = set.intersection(*per_case) if per_case else set()
    reasons = dict(sorted(common))
    for index, own in missing.items():
        reasons |= _of_case(index, dict(sorted(set(own.items()) - common)))
    return reasons
