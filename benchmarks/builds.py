"""The part ``builds``: all tools take turns in every scenario, on one machine in one mood."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.bare import Bare
from benchmarks.engines import Engines
from benchmarks.environment import begin, finish
from benchmarks.peers import PEERS
from benchmarks.peers.install import CACHE, InstallError
from benchmarks.peers.subject import PeerSubject
from benchmarks.progress import Tell
from benchmarks.project import Project
from benchmarks.quarto import Quarto
from benchmarks.results import Builds, Sample, Timed, Tool
from benchmarks.scenarios import TITLES, Scenario
from benchmarks.subject import Subject
from benchmarks.timing import CommandError

#: Repetitions of each scenario; what takes long is repeated less often.
REPEATS: Final[Mapping[Scenario, int]] = {
    Scenario.COLD: 3,
    Scenario.NOOP: 7,
    Scenario.RECORD: 3,
    Scenario.PROSE: 3,
    Scenario.DRAWING: 3,
    Scenario.TOUCH: 3,
    Scenario.STYLE: 3,
}
#: The peers take long, and no goal rests on most of their times.
PEER_REPEATS: Final[Mapping[Scenario, int]] = {
    **dict.fromkeys(Scenario, 1),
    Scenario.COLD: 2,
    Scenario.NOOP: 5,
    Scenario.RECORD: 2,
}


@dataclass
class Series:
    """What was collected of one tool in one scenario so far."""

    samples: list[Sample] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """One measurement of the plan."""

    subject: Subject
    scenario: Scenario
    turn: int
    last: bool


def subjects(scratch: Path, cache: Path = CACHE) -> tuple[Subject, ...]:
    """Everybody who takes part: the bare interpreter, ridgepoint, its engines, the peers."""
    typst, latex = (Project(engine, scratch / engine) for engine in ("typst", "latex"))
    return (
        Bare(),
        typst,
        latex,
        Engines("typst", scratch / "engines", lambda: typst.redrawn),
        Engines("latex", scratch / "engines", lambda: latex.redrawn),
        Quarto(scratch / "quarto"),
        *(PeerSubject(peer, scratch / peer.name, cache) for peer in PEERS),
    )


def plan(participants: Sequence[Subject], repeats: Mapping[Scenario, int]) -> tuple[Step, ...]:
    """Every measurement in its order: within each turn of a scenario all take part one by one."""
    return tuple(
        Step(subject, scenario, turn, turn == most - 1)
        for scenario in Scenario
        for turn in range(repeats[scenario])
        for subject in participants
        if scenario in subject.scenarios and turn < (most := _most(subject, scenario, repeats))
    )


def _most(subject: Subject, scenario: Scenario, repeats: Mapping[Scenario, int]) -> int:
    peer = isinstance(subject, PeerSubject)
    return min(repeats[scenario], PEER_REPEATS[scenario]) if peer else repeats[scenario]


def measure(
    only: Sequence[str], tell: Tell, repeats: Mapping[Scenario, int] = REPEATS, cache: Path = CACHE
) -> Builds:
    """Measure the tools named in ``only``, or all."""
    start = begin()
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as scratch:
        invited = [
            subject for subject in subjects(Path(scratch), cache)
            if not only or subject.tool.name in only
        ]  # fmt: skip
        ready, missing, versions = prepare(invited, tell)
        found = perform(plan(ready, repeats), tell)
        engines = [subject for subject in ready if isinstance(subject, Engines)]
        return Builds(
            environment=finish(start, versions),
            tools=tuple(missing.get(s.tool.name, s.tool) for s in invited),
            timed=tuple(_timed(found)),
            engine_tasks=tuple(task for engine in engines for task in engine.tasks()),
            computing=engines[0].computing() if engines else (),
        )


def prepare(
    invited: Sequence[Subject], tell: Tell
) -> tuple[list[Subject], dict[str, Tool], dict[str, str]]:
    """Install and build once, untimed: who is ready, who is missing and why, and all versions."""
    ready: list[Subject] = []
    missing: dict[str, Tool] = {}
    versions: dict[str, str] = {}
    for index, subject in enumerate(invited):
        tell(f"{subject.tool.title}: installed and built once", index / len(invited))
        try:
            versions |= subject.prepare()
            ready.append(subject)
        except (InstallError, CommandError) as error:
            missing[subject.tool.name] = msgspec.structs.replace(
                subject.tool, missing=first_line(error)
            )
    return ready, missing, versions


def perform(steps: Sequence[Step], tell: Tell) -> dict[tuple[str, Scenario], Series]:
    """Take every step of the plan; a tool whose build fails in a scenario is left out of it."""
    found: dict[tuple[str, Scenario], Series] = {}
    for index, step in enumerate(steps):
        tool = step.subject.tool
        tell(f"{tool.title}: {TITLES[step.scenario]}, {step.turn + 1}", index / len(steps))
        _take(step, found.setdefault((tool.name, step.scenario), Series()))
    tell("done", 1.0)
    return found


def _take(step: Step, series: Series) -> None:
    if any(fault.startswith(_FAILED) for fault in series.faults):
        return
    step.subject.change(step.scenario, step.turn)
    try:
        series.samples.append(step.subject.measure(step.scenario))
        faults = step.subject.faults(step.scenario, step.last)
    except CommandError as error:
        faults = (f"{_FAILED}: {first_line(error)}",)
    series.faults.extend(fault for fault in faults if fault not in series.faults)


_FAILED: Final = "the build failed"


def first_line(error: Exception) -> str:
    """The first line of an error, which says what failed."""
    return str(error).split("\n")[0]


def _timed(found: Mapping[tuple[str, Scenario], Series]) -> Iterator[Timed]:
    for (tool, scenario), series in found.items():
        yield Timed(
            tool=tool, scenario=scenario.value, samples=tuple(series.samples),
            faults=tuple(series.faults),
        )  # fmt: skip
