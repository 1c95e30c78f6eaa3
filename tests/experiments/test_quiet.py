"""What else the machine did: differences of readings, the rule, and waiting for quiet."""

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


def later(
    wall: float = 10.0, used: float = 0.0, own: float = 0.0, stolen: float = 0.0, wait: float = 0.0
) -> Reading:
    """A reading after ``wall`` s in which others used ``used`` processor seconds, and so on."""
    busy = 1000.0 + used + own
    return Reading(100.0 + wall, 2, busy, 10.0 + stolen, 50.0 + own, {1: 1.0 + wait, 2: 2.0})


START = later(wall=0.0)


@pytest.mark.parametrize(("end", "threads", "said"), [
    (later(own=20.0), 1, None),
    (later(own=20.0), 2, None),
    (later(own=20.0), 4, None),
    (START, 2, None),
    # Others on a full machine, from a tenth of a processor on.
    (later(used=0.99, own=20.0), 2, None),
    (later(used=8.0, own=12.0), 2, "used 0.8 of 2"),
    # Waiting, from two percent of all threads on; threads may wait for each other.
    (later(used=0.9, wait=0.39), 2, None),
    (later(used=0.9, wait=0.41), 2, ""),
    (later(used=0.9, wait=0.21), 1, ""),
    (later(own=10.0, wait=8.0), 1, None),
    (later(own=10.0, used=0.1, wait=8.0), 1, None),
    (later(own=10.0, stolen=0.3, wait=8.0), 1, ""),
    # What the hypervisor takes, with spare processors too, and together with others.
    (later(stolen=2.8), 1, "the hypervisor took 0.3 of 2"),
    (later(stolen=2.8), 2, ""),
    (later(stolen=0.9), 1, None),
    (later(used=0.6, stolen=0.6), 1, None),
    (later(used=0.7, stolen=0.6), 2, ""),
    (later(used=5.0, stolen=4.0), 2, "used 0.5 and the hypervisor took 0.4 of 2"),
    # Others never use more than there is.
    (later(wall=0.006, used=0.03), 2, None),
    (later(wall=0.1, used=0.5), 2, "used 2.0 of 2"),
])  # fmt: skip
def test_from_when_on_a_stretch_is_disturbed(end: Reading, threads: int, said: str | None) -> None:
    found = disturbance(START, end, threads)
    assert (found is None) == (said is None) and (said or "") in str(found)


def test_what_rounding_to_ticks_adds_up_to_never_counts() -> None:
    """Readings of machines on which nobody else runs, each clock rounded down to its tick."""
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
    """A processor between those that this process may use is offline."""
    rows = ("cpu  9 9 9 9", "cpu0 100 10 20 2500 5 2 3 4 1 0", "cpu2 200 20 40 2500 5 4 6 8 2 0")
    (tmp_path / "self/task/7").mkdir(parents=True)
    (tmp_path / "self/task/7/schedstat").write_text("35203162 1500000000 7\n")
    (tmp_path / "stat").write_text("\n".join((*rows, "intr 2\n")))
    monkeypatch.setattr(quiet, "_PROC", tmp_path)
    for processors, busy, stolen in (({0, 2}, 4.05, 0.12), ({2}, 2.70, 0.08), ({1}, 0, 0)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, there=processors: there)
        found = quiet.read_counters()
        assert (found.busy_s, found.steal_s) == pytest.approx((busy, stolen))
        assert found.processors == len(processors) and found.waits_s == {7: pytest.approx(1.5)}
    assert os.sysconf("SC_CLK_TCK") == pytest.approx(1 / quiet.TICK_S)


@pytest.mark.parametrize(
    ("loads", "seconds", "left"),
    # Quiet seconds must follow each other; after two minutes the run gives up.
    [((1.5, 0, 0, 0, 0, 0.5, 0), 11, "1.5 of 2"), ((2.0,), 120, "2.0 of 2")],
)
def test_waiting_for_five_quiet_seconds_says_what_disturbs(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, loads: tuple[float, ...], seconds: int, left: str
) -> None:
    """Others use ``loads`` processors, one a second, and then the last for ever."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", lambda _: slept.append(loads[: len(slept) + 1][-1]))
    monkeypatch.setattr(time, "monotonic", lambda: float(len(slept)))
    monkeypatch.setattr(quiet, "unavailable", lambda: None)
    monkeypatch.setattr(
        quiet, "read_counters", lambda: later(wall=float(len(slept)), used=sum(slept))
    )
    monkeypatch.setattr(quiet, "busiest_programs", lambda: ("cc1",))
    quiet.wait_quiet(2.0, notes.note, 2)
    assert len(slept) == seconds
    if seconds == 120:
        assert left in (last := notes.notes.pop()) and last.endswith("Measuring all the same.")
    assert len(notes.notes) == seconds // 10, "a line every ten seconds"
    assert f"at most 2.0 min: other processes used {left} processors (cc1)." in notes.notes[0]


def test_without_proc(notes: Notes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(quiet, "_PROC", tmp_path)
    quiet.wait_quiet(5.0, notes.note, 1)
    assert len(notes.notes) == 1
    before, after = quiet.read_counters(), quiet.read_counters()
    assert disturbance(before, after, 1) is None and before.processors >= 1


@pytest.mark.skipif(quiet.unavailable() is not None, reason="this system says nothing of others")
def test_busy_loops_on_this_machine_are_seen() -> None:
    program = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(program) for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        assert "python" in str(quiet.watch(seconds=0.3))
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
