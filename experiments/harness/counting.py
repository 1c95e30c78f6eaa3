"""The last step of a run: the executed work of its cases, by whatever counts it on this machine.

Nothing here is timed, and nothing that is timed runs meanwhile.  What has been counted of a case
stands in the journal before the next one ends, so that an interrupted run is continued here too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import msgspec

from experiments import registry
from experiments.harness import lackey, ncu, runtime
from experiments.harness.journal import Count, Journal, Ready, RunLog
from experiments.harness.measure import layers_of_case, subject_of
from experiments.harness.ncu import Event
from experiments.harness.progress import Observer
from experiments.harness.study import Device, Factors, Session, Study
from experiments.harness.summary import factors_text
from experiments.harness.text import period_text
from experiments.harness.worker import Role, Task
from report.errors import MeasurementError, RecordError
from report.instruments.counters import lackey as lackey_logs
from report.instruments.counters import ncu_logs
from report.instruments.counters.logs import CaseLogs, attachment_name, pack
from report.records.record import Attachment, Case, Series
from report.records.store import digest
from report.theory.work import macs

_NOT_ASKED: Final = "the run was not asked to count executed work (--counters none)"


#: Up to so many multiply-adds a case is called twice or once, so that a full plan stays within
#: minutes: 16 images of the layer of conv_scaling forward, 8 backward; 64 forward.
TWICE_UP_TO: Final = 260_000_000
ONCE_UP_TO: Final = 700_000_000
#: Calls of more multiply-adds are those of networks.
NETWORK_FROM: Final = 60_000_000_000

#: What lackey takes, as measured on one machine, to tell the time left before this one has shown
#: its own pace: s until torch is imported, multiply-adds a second and process, s for a case.
_LACKEY_START_S: Final = 65.0
_LACKEY_RATE: Final = 18e6
_LACKEY_CASE_S: Final = 2.0
#: What ncu takes for a case with its replays, and its part of the start of a process (s).
_NCU_CASE_S: Final = 7.5


@dataclass(frozen=True)
class Job:
    """A case to count, how often it is called, and how long that lasts, about (s)."""

    case: int
    calls: int
    seconds: float


def _nothing_missing(logs: Mapping[str, str], place: str) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Tool:
    """A program that counts: where, how it is run, and how what it prints is read.

    ``quantities`` are those that a case has in any event, the one to tell of first; ``meaning``
    that of the file beside the record.  ``calls`` says how often a case of so many multiply-adds is
    called, 0 to leave it out; ``seconds`` how long so many of them last.  ``series`` and
    ``missing`` read the logs of a case: what they say, and for each quantity that they do not give,
    the reason.
    """

    name: str
    role: Role
    device: Device
    quantities: tuple[str, ...]
    meaning: str
    unavailable: Callable[[], str | None]
    count: Callable[[Task], Iterator[Event]]
    calls: Callable[[int, bool], int]
    start_s: float
    seconds: Callable[[int], float]
    at_once: Callable[[], int]
    series: Callable[[Mapping[str, str], str], tuple[Series, ...]]
    missing: Callable[[Mapping[str, str], str], Mapping[str, str]] = _nothing_missing


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
    tools: Iterable[Tool] | None = None,
) -> Outcome:
    """Count what the run asks for and the journal does not hold yet.

    What cannot be counted is missing with its reason; only interruptions are raised.
    """

    def counted(tool: Tool) -> str | None:
        return _count_with(tool, study, session, run_log, journal, observer)

    return _gathered(run_log, TOOLS if tools is None else tools, counted)


def kept(study: Study, run_log: RunLog, reason: str) -> Outcome:
    """What the journal of a run holds that cannot go on; the rest is missing with ``reason``."""

    def why(tool: Tool) -> str | None:
        if study.subject is None:
            return None
        if run_log.header.counters == "none":
            return _NOT_ASKED
        return reason if jobs_of(tool, study, run_log) else None

    return _gathered(run_log, TOOLS, why)


def _gathered(
    run_log: RunLog, tools: Iterable[Tool], why_missing: Callable[[Tool], str | None]
) -> Outcome:
    """What the tools of the device have counted, and why the rest is missing, tool by tool."""
    outcome = Outcome()
    for tool in tools:
        if tool.device != run_log.header.environment.device:
            continue
        reason = why_missing(tool)
        if reason is not None:
            outcome.missing |= dict.fromkeys(tool.quantities, reason)
        _gather(tool, run_log, outcome)
    return outcome


def _count_with(
    tool: Tool,
    study: Study,
    session: Session,
    run_log: RunLog,
    journal: Journal,
    observer: Observer,
) -> str | None:
    """Count with one tool; returns why nothing, or nothing more, can be counted, if so."""
    if study.subject is None:
        return None
    if run_log.header.counters == "none":
        return _NOT_ASKED
    jobs = jobs_of(tool, study, run_log)
    if not jobs:
        return None
    reason = tool.unavailable()
    if reason is None:
        try:
            task = _task(tool, jobs, session, run_log)
            _follow(tool, task, Pace(tool, jobs), run_log, journal, observer)
        except (MeasurementError, RecordError, OSError) as error:
            reason = str(error)
    if reason is not None:
        observer.note(f"{tool.name} counts nothing here: {reason}.")
    return reason


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
    thorough = run_log.header.counters == "all"
    found = []
    for index, factors in enumerate(run_log.header.cases):
        if (tool.name, index) in run_log.counts or not _is_measured(run_log, index):
            continue
        if study.subject is not None and study.is_counted(factors, thorough):
            work = multiply_adds(study, factors)
            calls = tool.calls(work, thorough)
            found += [Job(index, calls, tool.seconds(calls * work))] if calls else []
    return tuple(sorted(found, key=lambda job: (-job.seconds, job.case)))


def multiply_adds(study: Study, factors: Factors) -> int:
    """Those of one call by its layers; backward there are about twice as many again."""
    mode = subject_of(study, factors, "meta").mode
    passes = 3 if mode in ("forward_backward", "step") else 1
    return passes * sum(map(macs, layers_of_case(study, factors)))


def calls_on_cpu(work: int, thorough: bool) -> int:
    """How often a case is called under a program that makes it a thousand times slower.

    Two calls separate what the first one does besides.
    """
    if thorough or work <= TWICE_UP_TO:
        return 2
    return 1 if work <= ONCE_UP_TO else 0


def calls_on_gpu(work: int, thorough: bool) -> int:
    """A GPU's counters only replay each kernel; a step of training has a thousand of them."""
    return 2 if thorough or work <= NETWORK_FROM else 1


def _is_measured(run_log: RunLog, index: int) -> bool:
    return index in run_log.finished and run_log.finished[index].status == "ok"


def _follow(
    tool: Tool, task: Task, pace: Pace, run_log: RunLog, journal: Journal, observer: Observer
) -> None:
    """Run a tool to its end, with every case in the journal as soon as it is counted."""
    observer.note(
        f"Counting the executed work of {len(task.cases)} cases with {tool.name}, "
        f"about {period_text(pace.expected)}."
    )
    with closing(tool.count(task)) as events:  # type: ignore[type-var]
        for event in events:
            pace.add(event)
            text = None
            if isinstance(event, Count):
                journal.append(event)
                run_log.add(event)
                text = f"{factors_text(run_log.header.cases[event.case])}: {_found(tool, event)}"
            observer.progressed(text, pace.done, period_text(pace.left))


def _found(tool: Tool, event: Count) -> str:
    if event.reason is not None:
        return event.reason
    found = tool.series(event.logs, tool.name)
    shown = next((item for item in found if item.quantity == tool.quantities[0]), found[-1])
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
            found = tool.series(line.logs, place)
            missing[index] = tool.missing(line.logs, place)
            outcome.series[index] = (*outcome.series.get(index, ()), *found)
        except RecordError as error:
            outcome.missing |= _of_case(index, dict.fromkeys(tool.quantities, str(error)))
    outcome.missing |= _told_once(missing)
    if kept:
        file = attachment_name(tool.name)
        outcome.files[file] = content = pack(tool.name, kept)
        made = Attachment(name=file, sha256=digest(content), meaning=tool.meaning)
        outcome.attachments = (*outcome.attachments, made)


def _of_case(index: int, reasons: Mapping[str, str]) -> dict[str, str]:
    return {f"cases[{index}].{quantity}": reason for quantity, reason in reasons.items()}


def _told_once(missing: Mapping[int, Mapping[str, str]]) -> dict[str, str]:
    """What all cases lack for the same reason under the quantity alone, the rest by case."""
    per_case = [set(reasons.items()) for reasons in missing.values()]
    common = dict(set.intersection(*per_case)) if per_case else {}
    own = {
        index: {name: reason for name, reason in reasons.items() if name not in common}
        for index, reasons in missing.items()
    }
    found = dict(sorted(common.items()))
    for index, reasons in own.items():
        found |= _of_case(index, reasons)
    return found


class Pace:
    """How far a tool is, and how long it will still take, at the pace that it has shown."""

    def __init__(self, tool: Tool, jobs: Iterable[Job]) -> None:
        """Begin now."""
        self._began = self._last = time.monotonic()
        self._start = tool.start_s
        self._shares = {job.case: job.seconds / tool.at_once() for job in jobs}
        longest = max((job.seconds for job in jobs), default=0.0)
        self.expected = tool.start_s + max(longest, sum(self._shares.values()))
        self._behind = 0.0

    def add(self, event: Event) -> None:
        """Take note of what has ended."""
        if isinstance(event, Ready):
            self._behind += self._start
        elif event is not None:
            self._behind += self._shares.pop(event.case, 0.0)
        if event is not None:
            self._last = time.monotonic()

    @property
    def done(self) -> float:
        """The share that is done, at most 1."""
        return min(1.0, self._behind / self.expected) if self.expected else 1.0

    @property
    def left(self) -> float:
        """Seconds left; what was expected, while no pace has been shown."""
        slower = (self._last - self._began) / self._behind if self._behind else 1.0
        ahead = (self.expected - self._behind) * slower
        return max(0.0, ahead - (time.monotonic() - self._last))


TOOLS: Final = (
    Tool(
        name=lackey_logs.TOOL,
        role="lackey",
        device="cpu",
        quantities=(lackey_logs.MULTIPLY_ADDS,),
        meaning="the logs of valgrind's lackey for each case that it counted, by process",
        unavailable=lackey.unavailable,
        count=lackey.count,
        calls=calls_on_cpu,
        start_s=_LACKEY_START_S,
        seconds=lambda work: _LACKEY_CASE_S + work / _LACKEY_RATE,
        at_once=runtime.cores_available,
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
        calls=calls_on_gpu,
        start_s=0.0,
        seconds=lambda work: _NCU_CASE_S,
        at_once=lambda: 1,
        series=ncu_logs.series_of,
        missing=ncu_logs.missing_of,
    ),
)
