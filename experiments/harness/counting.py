"""The last step of a run: the executed work of its cases, by whatever counts it on this machine.

Nothing here is timed, and nothing that is timed runs meanwhile.  What has been counted of a case
stands in the journal before the next one ends, so that an interrupted run is continued here too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final
from typing import Protocol as Interface

import msgspec

from experiments import registry
from experiments.harness.counters.plan import Counted, Event, Job, Plan, Ran, Ready
from experiments.harness.counters.tools import TOOLS, Tool
from experiments.harness.journal import Count, Journal, RunLog
from experiments.harness.measure import release
from experiments.harness.study import Counting, Study
from experiments.harness.summary import factors_text
from experiments.harness.text import period_text
from report.errors import MeasurementError, RecordError
from report.instruments.counters.logs import CaseLogs, attachment_name, pack
from report.records.record import Attachment, Case, Series
from report.records.store import digest

_NOT_ASKED: Final = "the run was not asked to count executed work (--counters none)"


class Watcher(Interface):
    """Who watches the counting."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def progressed(self, text: str | None, done: float, left: str) -> None:
        """The share ``done`` of 1 is done; ``text`` says what just ended, None that time passed."""


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
    run_log: RunLog,
    journal: Journal,
    watcher: Watcher,
    tools: Iterable[Tool] = TOOLS,
) -> Outcome:
    """Count what the run asks for and the journal does not hold yet.

    What cannot be counted is missing with its reason; only interruptions are raised.
    """
    return _gathered(
        study, run_log, tools, lambda tool, of: _count_with(tool, of, run_log, journal, watcher)
    )


def kept(study: Study, run_log: RunLog, reason: str) -> Outcome:
    """What the journal of a run holds that cannot go on; the rest is missing with ``reason``."""

    def why(tool: Tool, counting: Counting) -> str | None:
        if run_log.header.counters == "none":
            return _NOT_ASKED
        return reason if _jobs(tool, counting, run_log) else None

    return _gathered(study, run_log, TOOLS, why)


def _gathered(
    study: Study,
    run_log: RunLog,
    tools: Iterable[Tool],
    why_missing: Callable[[Tool, Counting], str | None],
) -> Outcome:
    """What the tools of the device have counted, and why the rest is missing, tool by tool."""
    outcome = Outcome()
    if study.counting is None:
        return outcome
    for tool in tools:
        if tool.device != run_log.header.environment.device:
            continue
        reason = why_missing(tool, study.counting)
        if reason is not None:
            outcome.missing |= dict.fromkeys(tool.quantities, reason)
        _gather(tool, run_log, outcome)
    return outcome


def _count_with(
    tool: Tool, counting: Counting, run_log: RunLog, journal: Journal, watcher: Watcher
) -> str | None:
    """Count with one tool; returns why nothing, or nothing more, can be counted, if so."""
    if run_log.header.counters == "none":
        return _NOT_ASKED
    jobs = _jobs(tool, counting, run_log)
    if not jobs:
        return None
    reason = tool.unavailable()
    if reason is None:
        release(tool.device)  # what the sweep still holds of a GPU, the counted cases need
        try:
            _follow(tool, _plan(tool, counting, jobs, run_log), run_log, journal, watcher)
        except (MeasurementError, RecordError, OSError) as error:
            reason = str(error)
    if reason is not None:
        watcher.note(f"{tool.name} counts nothing here: {reason}.")
    return reason


def _plan(tool: Tool, counting: Counting, jobs: tuple[Job, ...], run_log: RunLog) -> Plan:
    environment = run_log.header.environment
    return Plan(
        module=registry.STUDIES[run_log.header.study],
        warm_up=counting.warm_up,
        at_once=tool.at_once(),
        jobs=jobs,
        threads=environment.threads,
        compute_capability=environment.gpu.compute_capability if environment.gpu else None,
    )


def _jobs(tool: Tool, counting: Counting, run_log: RunLog) -> tuple[Job, ...]:
    """The cases to count that ended well and are not counted yet, longest first."""
    thorough = run_log.header.counters == "all"
    # Only of what is counted a study need know the work.
    jobs = [
        Job(
            case=index,
            factors=factors,
            calls=calls,
            multiply_adds=counting.multiply_adds(factors),
        )
        for index, factors in enumerate(run_log.header.cases)
        if _is_measured(run_log, index) and (tool.name, index) not in run_log.counts
        if (calls := tool.calls(counting, factors, thorough))
    ]
    return tuple(sorted(jobs, key=lambda job: (-tool.seconds(job), job.case)))


def _is_measured(run_log: RunLog, index: int) -> bool:
    return index in run_log.finished and run_log.finished[index].status == "ok"


def _follow(tool: Tool, plan: Plan, run_log: RunLog, journal: Journal, watcher: Watcher) -> None:
    """Run a tool to its end, with every case in the journal as soon as it is counted."""
    pace = Pace(tool, plan)
    watcher.note(
        f"Counting the executed work of {len(plan.jobs)} cases with {tool.name}, "
        f"about {period_text(pace.expected)}."
    )
    with closing(tool.count(plan)) as events:  # type: ignore[type-var]
        for event in events:
            pace.tell(event)
            text = None
            if isinstance(event, Counted):
                _keep(tool, event, run_log, journal)
                text = f"{factors_text(run_log.header.cases[event.case])}: {_found(tool, event)}"
            watcher.progressed(text, pace.done, period_text(pace.left))


def _keep(tool: Tool, event: Counted, run_log: RunLog, journal: Journal) -> None:
    line = Count(tool=tool.name, case=event.case, logs=event.logs, reason=event.reason)
    journal.append(line)
    run_log.counts[tool.name, event.case] = line


def _found(tool: Tool, event: Counted) -> str:
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

    def __init__(self, tool: Tool, plan: Plan, now: Callable[[], float] = time.monotonic) -> None:
        """Begin now."""
        self._now = now
        self._began = self._last = now()
        self._start = tool.start_s
        self._shares = {job.case: tool.seconds(job) / plan.at_once for job in plan.jobs}
        longest = max(map(tool.seconds, plan.jobs), default=0.0)
        self.expected = tool.start_s + max(longest, sum(self._shares.values()))
        self._behind = 0.0

    def tell(self, event: Event) -> None:
        """Take note of what has ended."""
        if isinstance(event, Ready):
            self._behind += self._start
        elif isinstance(event, Ran | Counted):
            self._behind += self._shares.pop(event.case, 0.0)
        if event is not None:
            self._last = self._now()

    @property
    def done(self) -> float:
        """The share that is done, at most 1."""
        return min(1.0, self._behind / self.expected) if self.expected else 1.0

    @property
    def left(self) -> float:
        """Seconds left; what was expected, while no pace has been shown."""
        slower = (self._last - self._began) / self._behind if self._behind else 1.0
        ahead = (self.expected - self._behind) * slower
        return max(0.0, ahead - (self._now() - self._last))
