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
from typing import Protocol as Interface

import msgspec

from experiments import registry
from experiments.harness import runtime
from experiments.harness.counters import lackey, perf
from experiments.harness.counters.plan import Counted, Event, Job, Plan, Ready
from experiments.harness.journal import Count, Journal, Story
from experiments.harness.study import Counting, Study
from experiments.harness.summary import factors_text, period_text
from report.counters import lackey as lackey_logs
from report.counters import perf as perf_logs
from report.counters.logs import CaseLogs, attachment_name, pack
from report.errors import MeasurementError, RecordError
from report.records import Attachment, Case, Series
from report.store import digest


class Watcher(Interface):
    """Who watches the counting."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def counting(self, text: str | None, done: float, left: str) -> None:
        """The share ``done`` of 1 is done; ``text`` says what just ended, None that time passed."""


@dataclass(frozen=True)
class Tool:
    """A program that counts: how it is run, and how what it prints is read."""

    name: str
    quantity: str
    meaning: str
    unavailable: Callable[[], str | None]
    count: Callable[[Plan], Iterator[Event]]
    start_s: float
    seconds: Callable[[Job], float]
    at_once: Callable[[], int]
    series: Callable[[Mapping[str, str], str], tuple[Series, ...]]


TOOLS: Final = (
    Tool(
        name=lackey_logs.TOOL,
        quantity=lackey_logs.MULTIPLY_ADDS,
        meaning="the logs of valgrind's lackey for each case that it counted, by process",
        unavailable=lackey.unavailable,
        count=lackey.count,
        start_s=lackey.START_S,
        seconds=lackey.seconds,
        at_once=runtime.cores_available,
        series=lackey_logs.series_of,
    ),
    Tool(
        name=perf_logs.TOOL,
        quantity=perf_logs.FLOPS,
        meaning="what perf stat printed for each case that it counted",
        unavailable=perf.unavailable,
        count=perf.count,
        start_s=0.0,
        seconds=perf.seconds,
        at_once=lambda: 1,
        series=perf_logs.series_of,
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
    story: Story,
    journal: Journal,
    watcher: Watcher,
    tools: Iterable[Tool] = TOOLS,
) -> Outcome:
    """Count what the run asks for and the journal does not hold yet.

    What cannot be counted is missing with its reason; only interruptions are raised.
    """
    outcome = Outcome()
    if study.counting is None or story.header.environment.device != "cpu":
        return outcome
    for tool in tools:
        reason = _count_with(tool, study.counting, story, journal, watcher)
        if reason is not None:
            outcome.missing[tool.quantity] = reason
        _gather(tool, story, outcome)
    return outcome


def _count_with(
    tool: Tool, counting: Counting, story: Story, journal: Journal, watcher: Watcher
) -> str | None:
    """Count with one tool; returns why nothing, or nothing more, can be counted, if so."""
    if story.header.counters == "none":
        return "the run was not asked to count executed work (--counters none)"
    jobs = _jobs(tool, counting, story)
    if not jobs:
        return None
    reason = tool.unavailable()
    if reason is None:
        plan = Plan(
            module=registry.STUDIES[story.header.study],
            warm_up=counting.warm_up,
            at_once=tool.at_once(),
            jobs=jobs,
        )
        try:
            _follow(tool, plan, story, journal, watcher)
        except (MeasurementError, RecordError, OSError) as error:
            reason = str(error)
    if reason is not None:
        watcher.note(f"{tool.name} counts nothing here: {reason}.")
    return reason


def _jobs(tool: Tool, counting: Counting, story: Story) -> tuple[Job, ...]:
    """The cases to count that ended well and are not counted yet, longest first."""
    thorough = story.header.counters == "all"
    jobs = [
        Job(
            case=index,
            factors=factors,
            calls=counting.calls(factors, thorough),
            multiply_adds=counting.multiply_adds(factors),
        )
        for index, factors in enumerate(story.header.cases)
        if story.finished[index].status == "ok" and (tool.name, index) not in story.counts
    ]
    wanted = [job for job in jobs if job.calls]
    return tuple(sorted(wanted, key=lambda job: (-tool.seconds(job), job.case)))


def _follow(tool: Tool, plan: Plan, story: Story, journal: Journal, watcher: Watcher) -> None:
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
                _keep(tool, event, story, journal)
                text = f"{factors_text(story.header.cases[event.case])}: {_found(tool, event)}"
            watcher.counting(text, pace.done, period_text(pace.left))


def _keep(tool: Tool, event: Counted, story: Story, journal: Journal) -> None:
    line = Count(tool=tool.name, case=event.case, logs=event.logs, reason=event.reason)
    journal.append(line)
    story.counts[tool.name, event.case] = line


def _found(tool: Tool, event: Counted) -> str:
    if event.reason is not None:
        return event.reason
    last = tool.series(event.logs, tool.name)[-1]
    return f"{last.samples[0]:,} {last.unit}"


def _gather(tool: Tool, story: Story, outcome: Outcome) -> None:
    """Read the logs of every case; what cannot be read is missing, with what is wrong."""
    kept = []
    for (name, index), line in sorted(story.counts.items()):
        if name != tool.name:
            continue
        reason = line.reason
        if reason is None:
            kept.append(CaseLogs(case=index, logs=line.logs))
            try:
                found = tool.series(line.logs, f"{tool.name}, case {index}")
                outcome.series[index] = (*outcome.series.get(index, ()), *found)
            except RecordError as error:
                reason = str(error)
        if reason is not None:
            outcome.missing[f"cases[{index}].{tool.quantity}"] = reason
    if kept:
        file = attachment_name(tool.name)
        outcome.files[file] = content = pack(tool.name, kept)
        made = Attachment(name=file, sha256=digest(content), meaning=tool.meaning)
        outcome.attachments = (*outcome.attachments, made)


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
        elif isinstance(event, Counted):
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
