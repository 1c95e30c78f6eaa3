"""What else the machine did: differences of readings, the rule, and waiting for quiet."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from conftest import Notes

from experiments.harness import quiet
from experiments.harness.quiet import Reading, disturbance

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


def test_a_stretch_without_others_is_undisturbed() -> None:
    for threads in (1, 2, 4):
        assert disturbance(START, later(own=20.0), threads) is None
    assert disturbance(START, START, 2) is None


def test_others_on_a_full_machine_disturb_from_a_tenth_of_a_processor_on() -> None:
    assert disturbance(START, later(used=0.99, own=20.0), 2) is None
    said = disturbance(START, later(used=8.0, own=12.0), 2)
    assert said == "other processes used 0.8 of 2 processors"


def test_waiting_counts_from_two_percent_of_all_threads_on() -> None:
    assert disturbance(START, later(used=0.9, wait=0.39), 2) is None
    assert disturbance(START, later(used=0.9, wait=0.41), 2) is not None
    assert disturbance(START, later(used=0.9, wait=0.21), 1) is not None


def test_threads_that_wait_for_each_other_are_not_disturbed() -> None:
    assert disturbance(START, later(own=10.0, wait=8.0), 1) is None
    assert disturbance(START, later(own=10.0, used=0.1, wait=8.0), 1) is None
    assert disturbance(START, later(own=10.0, stolen=0.3, wait=8.0), 1) is not None


def test_what_the_hypervisor_takes_disturbs_with_spare_processors_too() -> None:
    for threads in (1, 2):
        said = disturbance(START, later(stolen=2.8), threads)
        assert said == "the processor was taken away 14 % of the time"
    assert disturbance(START, later(stolen=0.9), 1) is None


def test_others_and_the_hypervisor_count_together() -> None:
    assert disturbance(START, later(used=0.6, stolen=0.6), 1) is None
    assert disturbance(START, later(used=0.7, stolen=0.6), 2) is not None
    said = disturbance(START, later(used=5.0, stolen=4.0), 2)
    assert said == (
        "other processes used 0.5 of 2 processors and the processor was taken away 20 % of the time"
    )


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


def test_others_never_use_more_than_there_is() -> None:
    assert disturbance(START, later(wall=0.006, used=0.03), 2) is None  # «5.0 of 2 processors»
    assert quiet.others(START, later(wall=0.1, used=0.5), 0.0) == pytest.approx(0.2)
    assert disturbance(START, later(wall=0.1, used=0.5), 2) == (
        "other processes used 2.0 of 2 processors"
    )


def test_others_are_never_negative() -> None:
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
    after = {
        1: ("idle", 5.0),
        2: ("cc1", 1.4),
        3: ("cc1", 1.4),
        4: ("b", 0.5),
        5: ("a", 0.5),
        6: ("new", 0.06),
    }
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
    assert notes.notes == [
        "Waiting for a quiet machine, at most 59 s: other processes used 1.5 of 2 processors (cc1)."
    ]


@pytest.mark.usefixtures("linux")
def test_waiting_ends_and_says_what_disturbs(notes: Notes) -> None:
    machine = Machine(2.0)
    assert machine.wait(2.0, notes) == (
        "The machine did not become quiet within 2 min: other processes used 2.0 of 2 processors "
        "(cc1)."
    )
    assert machine.seconds == 120
    assert len(notes.notes) == 12, "a line every ten seconds"
    assert "at most 2 min" in notes.notes[0] and "at most 9 s" in notes.notes[-1]


def test_without_proc_nobody_waits_and_the_reason_is_noted_once(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(quiet, "_PROC", tmp_path)
    assert quiet.wait_quiet(5.0, notes) is None
    (said,) = notes.notes
    assert said.startswith("Not waiting for a quiet machine: the system does not count")
    found = quiet.read()
    assert (found.busy_s, found.steal_s, found.waits_s) == (None, None, None)
    assert found.processors >= 1


# ------------------------------------------------------------------------------- this machine

needs_proc = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs Linux's /proc")

BUSY = """
import sys, time
while time.process_time() < 1.0:
    pass
print(time.process_time(), flush=True)
sys.stdin.read()
"""


@needs_proc
def test_what_a_busy_process_burns_is_found_with_others() -> None:
    before, running = quiet.read(), quiet.processes()
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdin is not None
        burnt = float(child.stdout.readline())
        # It still runs, so that its time is not yet this process's own.
        after, now = quiet.read(), quiet.processes()
        child.stdin.close()
    used = quiet.others(before, after, after.own_s - before.own_s)
    assert used > burnt / 2
    assert now[child.pid][1] > burnt / 2 and child.pid not in running
