"""What else the machine did: differences of readings, the rule, and waiting for quiet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from experiments.harness import quiet
from experiments.harness.quiet import Reading, disturbance
from tests.experiments.conftest import Notes

START = Reading(
    at_s=100.0,
    processors=2,
    busy_s=1000.0,
    steal_s=10.0,
    own_s=50.0,
    waits_s={1: 1.0, 2: 2.0},
)


def later(
    wall: float = 10.0, used: float = 0.0, own: float = 0.0, stolen: float = 0.0, wait: float = 0.0
) -> Reading:
    """``START`` after ``wall`` s in which others used ``used`` processor seconds, and so on."""
    return Reading(
        at_s=100.0 + wall,
        processors=2,
        busy_s=1000.0 + used + own,
        steal_s=10.0 + stolen,
        own_s=50.0 + own,
        waits_s={1: 1.0 + wait, 2: 2.0},
    )


# ------------------------------------------------------------------------------------ the rule


@pytest.mark.parametrize(
    ("end", "threads", "words"),
    [
        (later(own=20.0), 1, ()),
        (later(own=20.0), 2, ()),
        (later(own=20.0), 4, ()),
        (START, 2, ()),
        # Others on a full machine, from a tenth of a processor on.
        (later(used=0.99, own=20.0), 2, ()),
        (later(used=8.0, own=12.0), 2, ("used 0.8 of 2",)),
        # Waiting, from two percent of all threads on; threads may wait for each other.
        (later(used=0.9, wait=0.39), 2, ()),
        (later(used=0.9, wait=0.41), 2, ("",)),
        (later(used=0.9, wait=0.21), 1, ("",)),
        (later(own=10.0, wait=8.0), 1, ()),
        (later(own=10.0, used=0.1, wait=8.0), 1, ()),
        (later(own=10.0, stolen=0.3, wait=8.0), 1, ("",)),
        # What the hypervisor takes, with spare processors too, and together with others.
        (later(stolen=2.8), 1, ("14 %",)),
        (later(stolen=2.8), 2, ("14 %",)),
        (later(stolen=0.9), 1, ()),
        (later(used=0.6, stolen=0.6), 1, ()),
        (later(used=0.7, stolen=0.6), 2, ("",)),
        (later(used=5.0, stolen=4.0), 2, ("used 0.5 of 2", "20 %")),
        # Others never use more than there is.
        (later(wall=0.006, used=0.03), 2, ()),
        (later(wall=0.1, used=0.5), 2, ("used 2.0 of 2",)),
    ],
)
def test_from_when_on_a_stretch_is_disturbed(
    end: Reading, threads: int, words: tuple[str, ...]
) -> None:
    said = disturbance(START, end, threads)
    assert (said is not None) == bool(words)
    assert all(word in str(said) for word in words)


@pytest.mark.parametrize("processors", [1, 2, 8, 64])
def test_what_rounding_to_ticks_adds_up_to_never_counts(processors: int) -> None:
    """Readings of a machine on which nobody else runs, each clock rounded down to its tick."""
    random = Random(processors)

    def ticked(seconds: float) -> float:
        return math.floor(seconds / quiet.TICK_S) * quiet.TICK_S

    def reading(at: float, phases: list[float], own_phase: float) -> Reading:
        return Reading(
            at_s=at,
            processors=processors,
            busy_s=sum(ticked(at * share + phase) for share in (0.7, 0.3) for phase in phases),
            steal_s=0.0,
            own_s=sum(ticked(at * processors * share + own_phase) for share in (0.7, 0.3)),
            waits_s={1: at},
        )

    alarms = 0
    for _ in range(2000):
        phases = [random.random() for _ in range(processors)]
        own_phase, wall = random.random(), random.choice([0.001, 0.006, 0.02, 0.1, 0.5])
        before, after = (reading(at, phases, own_phase) for at in (50.0, 50.0 + wall))
        alarms += disturbance(before, after, processors) is not None
    assert alarms <= 2


def test_others_are_never_negative_nor_more_than_there_is() -> None:
    assert quiet.others(START, later(wall=0.1, used=0.5), 0.0) == pytest.approx(0.2)
    assert quiet.others(START, later(own=1.0), 5.0) == quiet.others(START, START, 1.0) == 0.0
    assert quiet.others(START, later(own=1.0, used=2.0), 1.0) == pytest.approx(2.0)


def test_a_system_without_proc_says_nothing() -> None:
    blind = Reading(at_s=0.0, processors=2, busy_s=None, steal_s=None, own_s=0.0, waits_s=None)
    assert disturbance(blind, replace(blind, at_s=10.0, own_s=20.0), 2) is None
    assert quiet.busy_now(blind, replace(blind, at_s=10.0), 2) is None


def test_a_run_that_waits_needs_its_processors_for_itself() -> None:
    assert quiet.busy_now(START, later(used=9.0), 1) is None
    assert quiet.busy_now(START, later(used=12.0), 1) is not None
    assert quiet.busy_now(START, later(used=2.0), 2) is not None


# ------------------------------------------------------------------------------------- parsers

STAT = """\
cpu  300 30 60 5000 10 6 9 12 3 0
cpu0 100 10 20 2500 5 2 3 4 1 0
cpu1 200 20 40 2500 5 4 6 8 2 0
intr 26741777 0 0
"""


def test_busy_and_stolen_time_of_the_processors_that_may_be_used() -> None:
    assert quiet.parse_stat(STAT, {0, 1}, 100.0) == (pytest.approx(4.05), pytest.approx(0.12))
    assert quiet.parse_stat(STAT, {1}, 100.0) == (pytest.approx(2.70), pytest.approx(0.08))
    assert quiet.parse_stat(STAT, {7}, 100.0) is None
    assert quiet.parse_stat("", {0}, 100.0) is None


def test_waiting() -> None:
    assert quiet.parse_schedstat("35203162 1500000000 7\n") == pytest.approx(1.5)
    assert quiet.parse_schedstat("") is None


def test_a_process_may_have_any_name() -> None:
    rest = "S 1 1 1 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 5 1 2"
    assert quiet.parse_process(f"7 (python3) {rest}", 100.0) == ("python3", 2.0)
    assert quiet.parse_process(f"7 (a) b (\x1b[1m) {rest}", 100.0) == ("a) b ([1m", 2.0)
    assert quiet.parse_process("", 100.0) is None


def test_the_busiest_processes_are_named() -> None:
    before = {1: ("idle", 5.0), 2: ("cc1", 1.0), 3: ("cc1", 1.0), 4: ("b", 0.0), 5: ("a", 0.0)}
    now = {2: ("cc1", 1.4), 3: ("cc1", 1.4), 4: ("b", 0.5), 5: ("a", 0.5), 6: ("new", 0.06)}
    after = before | now
    assert quiet.busiest(before, after, 1.0) == ("cc1", "a", "b")
    assert quiet.busiest(before, after, 10.0) == ("cc1", "a", "b")
    assert quiet.busiest(before, before, 1.0) == ()


# ------------------------------------------------------------------------------------- waiting


class Machine:
    """A machine whose others use ``loads`` processors, one a second, and then the last for ever."""

    def __init__(self, *loads: float) -> None:
        self.loads = loads
        self.seconds = 0
        self.used = 0.0

    def sleep(self, seconds: float) -> None:
        self.used += self.loads[min(self.seconds, len(self.loads) - 1)]
        self.seconds += 1

    def read(self) -> Reading:
        return later(wall=float(self.seconds), used=self.used)

    def seen(self) -> Mapping[int, tuple[str, float]]:
        return {7: ("cc1", self.used)}

    def wait(self, minutes: float, notes: Notes, threads: int | None = None) -> str | None:
        return quiet.wait_quiet(
            minutes, notes, threads, readings=self.read, seen=self.seen, sleep=self.sleep
        )


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(quiet, "unavailable", lambda: None)
    yield


@pytest.mark.usefixtures("linux")
def test_the_quiet_seconds_must_follow_each_other(notes: Notes) -> None:
    machine = Machine(1.5, 0, 0, 0, 0, 0.5, 0)
    assert machine.wait(1.0, notes) is None
    assert machine.seconds == 11
    (said,) = notes.notes
    assert "at most 59 s" in said and "1.5 of 2" in said and "(cc1)" in said


@pytest.mark.usefixtures("linux")
def test_waiting_ends_and_says_what_disturbs(notes: Notes) -> None:
    machine = Machine(2.0)
    said = str(machine.wait(2.0, notes))
    assert "2 min" in said and "2.0 of 2" in said and "(cc1)" in said
    assert machine.seconds == 120
    assert len(notes.notes) == 12, "a line every ten seconds"


def test_without_proc_nobody_waits_and_the_reason_is_noted_once(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(quiet, "_PROC", tmp_path)
    assert quiet.wait_quiet(5.0, notes) is None
    assert len(notes.notes) == 1
    found = quiet.read()
    assert (found.busy_s, found.steal_s, found.waits_s) == (None, None, None)
    assert found.processors >= 1
