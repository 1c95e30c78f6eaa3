"""Disturbances by other programs: readings of counters, the rule, and waiting for quiet."""

import math
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from experiments.machine import quiet
from experiments.machine.quiet import Reading, disturbance
from tests.experiments.conftest import Notes


def reading_after(
    wall: float = 10.0, used: float = 0.0, own: float = 0.0, stolen: float = 0.0, wait: float = 0.0
) -> Reading:
    """Reading ``wall`` s after ``START``; the other arguments are processor seconds since then."""
    busy = 1000.0 + used + own
    return Reading(100.0 + wall, 2, busy, 10.0 + stolen, 50.0 + own, {1: 1.0 + wait, 2: 2.0})


START = reading_after(wall=0.0)


@pytest.mark.parametrize(("end", "threads", "cause"), [
    (reading_after(own=20.0), 1, None),
    (reading_after(own=20.0), 2, None),
    (reading_after(own=20.0), 4, None),
    (START, 2, None),
    # A full machine: other programs may use up to a tenth of a processor.
    (reading_after(used=0.99, own=20.0), 2, None),
    (reading_after(used=8.0, own=12.0), 2, "used 0.8 of 2"),
    # Threads may wait for 2 % of their time for other programs, and longer for each other.
    (reading_after(used=0.9, wait=0.39), 2, None),
    (reading_after(used=0.9, wait=0.41), 2, ""),
    (reading_after(used=0.9, wait=0.21), 1, ""),
    (reading_after(own=10.0, wait=8.0), 1, None),
    (reading_after(own=10.0, used=0.1, wait=8.0), 1, None),
    (reading_after(own=10.0, stolen=0.3, wait=8.0), 1, ""),
    # The hypervisor takes time, even beside spare processors, alone or with other programs.
    (reading_after(stolen=2.8), 1, "the hypervisor took 0.3 of 2"),
    (reading_after(stolen=2.8), 2, ""),
    (reading_after(stolen=0.9), 1, None),
    (reading_after(used=0.6, stolen=0.6), 1, None),
    (reading_after(used=0.7, stolen=0.6), 2, ""),
    (reading_after(used=5.0, stolen=4.0), 2, "used 0.5 and the hypervisor took 0.4 of 2"),
    # Other programs cannot use more processors than the machine has.
    (reading_after(wall=0.006, used=0.03), 2, None),
    (reading_after(wall=0.1, used=0.5), 2, "used 2.0 of 2"),
])  # fmt: skip
def test_disturbances_above_the_limits(end: Reading, threads: int, cause: str | None) -> None:
    message = disturbance(START, end, threads)
    assert (message is None) == (cause is None) and (cause or "") in str(message)


def test_rounding_to_ticks_hardly_ever_alarms() -> None:
    """No other program runs on these machines, and each clock is rounded down to its tick."""
    random, alarms = Random(1), 0

    def ticked(seconds: float) -> float:
        return math.floor(seconds / quiet.TICK_S) * quiet.TICK_S

    def reading(at: float, phases: list[float], own: float) -> Reading:
        clocks = [ticked(at * share + phase) for share in (0.7, 0.3) for phase in phases]
        own_s = sum(ticked(at * len(phases) * share + own) for share in (0.7, 0.3))
        return Reading(at, len(phases), sum(clocks), 0.0, own_s, {1: at})

    for _ in range(2000):
        phases = [random.random() for _ in range(random.choice([1, 2, 8, 64]))]
        own, wall = random.random(), random.choice([0.001, 0.006, 0.02, 0.1, 0.5])
        before, after = (reading(at, phases, own) for at in (50.0, 50.0 + wall))
        alarms += disturbance(before, after, len(phases)) is not None
    assert alarms <= 4


def test_counters_of_linux_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Processor 1 is offline, so that ``stat`` has no line for it."""
    rows = ("cpu  9 9 9 9", "cpu0 100 10 20 2500 5 2 3 4 1 0", "cpu2 200 20 40 2500 5 4 6 8 2 0")
    (tmp_path / "self/task/7").mkdir(parents=True)
    (tmp_path / "self/task/7/schedstat").write_text("35203162 1500000000 7\n")
    (tmp_path / "stat").write_text("\n".join((*rows, "intr 2\n")))
    monkeypatch.setattr(quiet, "_PROC", tmp_path)
    for processors, busy, stolen in (({0, 2}, 4.05, 0.12), ({2}, 2.70, 0.08), ({1}, 0, 0)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, usable=processors: usable)
        reading = quiet.read_counters()
        assert (reading.busy_s, reading.steal_s) == pytest.approx((busy, stolen))
        assert reading.processors == len(processors) and reading.waits_s == {7: pytest.approx(1.5)}
    assert os.sysconf("SC_CLK_TCK") == pytest.approx(1 / quiet.TICK_S)


@pytest.mark.parametrize(
    ("loads", "seconds", "used"),
    # Five quiet seconds in a row end the wait; so do two minutes.
    [((1.5, 0, 0, 0, 0, 0.5, 0), 11, "1.5 of 2"), ((2.0,), 120, "2.0 of 2")],
)
def test_a_wait_ends_after_five_quiet_seconds(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, loads: tuple[float, ...], seconds: int, used: str
) -> None:
    """Other programs use ``loads[n]`` processors in second n, and the last load from then on."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", lambda _: slept.append(loads[: len(slept) + 1][-1]))
    monkeypatch.setattr(time, "monotonic", lambda: float(len(slept)))
    monkeypatch.setattr(quiet, "unavailable", lambda: None)
    monkeypatch.setattr(
        quiet, "read_counters", lambda: reading_after(wall=float(len(slept)), used=sum(slept))
    )
    monkeypatch.setattr(quiet, "busiest_programs", lambda: ("cc1",))
    quiet.wait_quiet(2.0, notes.note, 2)
    assert len(slept) == seconds
    if seconds == 120:
        assert used in (last := notes.notes.pop()) and last.endswith("Measuring all the same.")
    assert len(notes.notes) == seconds // 10, "a line every ten seconds"
    assert f"at most 2.0 min: other processes used {used} processors (cc1)." in notes.notes[0]


def test_without_proc(notes: Notes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(quiet, "_PROC", tmp_path)
    quiet.wait_quiet(5.0, notes.note, 1)
    assert len(notes.notes) == 1
    before, after = quiet.read_counters(), quiet.read_counters()
    assert disturbance(before, after, 1) is None and before.processors >= 1


@pytest.mark.skipif(quiet.unavailable() is not None, reason="this system counts no other programs")
def test_busy_loops_on_this_machine_are_seen() -> None:
    program = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(program) for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        assert "python" in str(quiet.watch(seconds=0.3))
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
