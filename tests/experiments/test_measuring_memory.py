"""Bytes of a call on a CPU, from the profiler's events."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.harness import memory
from tests.experiments.conftest import ROOT

OUTPUT_BYTES = 64 * 24 * 24 * 4


@dataclass(frozen=True)
class Event:
    """One of the profiler's raw events."""

    _name: str
    _start: int
    _duration: int = 0
    _bytes: int = 0

    def name(self) -> str:
        return self._name

    def start_ns(self) -> int:
        return self._start

    def duration_ns(self) -> int:
        return self._duration

    def nbytes(self) -> int:
        return self._bytes


MARKS = (Event("ridgepoint.build", 100, 100), Event("ridgepoint.call", 300, 100))


def test_events_are_cut_by_the_marks_and_ordered_by_time() -> None:
    moments = ((390, -7), (310, 20), (310, -5), (150, 64), (50, 999), (250, 999), (500, 999))
    found = memory.cut([*MARKS, *(Event("[memory]", at, 0, size) for at, size in moments)])
    assert found == memory.Allocations(build=(64,), call=(20, -5, -7))
    assert (found.before, found.after, found.peak) == (64, 72, 84)


@given(st.lists(st.integers(-1000, 1000)))
def test_highest_is_the_top_of_the_running_sum(events: list[int]) -> None:
    assert memory.highest(events) == max([0, *accumulate(events)])


PROGRAM = """
import json
from experiments.conv_scaling import STUDY
from experiments.harness import measure, memory, runtime
runtime.start_torch("cpu", 1)
found = {}
for direction in ("forward", "forward_backward"):
    factors = {"subject": "layer", "batch": 4, "pass": direction}
    series = memory.measure_cpu(lambda: measure.build(STUDY, factors, "cpu"))
    found[direction] = {s.quantity: s.samples for s in series}
print(json.dumps(found))
"""


def measured_in_a_new_process() -> dict[str, dict[str, list[int]]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""  # torch's C++ profiler writes there if it is let
    found: dict[str, dict[str, list[int]]] = json.loads(done.stdout)
    return found


def test_the_convolution_allocates_the_same_in_every_process() -> None:
    pytest.importorskip("torch")
    first, second = measured_in_a_new_process(), measured_in_a_new_process()
    deterministic = ("memory_events", "allocated_before", "allocated_after", "allocated_peak")
    for direction, found in first.items():
        assert all(found[name] == second[direction][name] for name in deterministic)
        assert all(len(set(found[name])) == 1 for name in deterministic[1:])
        before, peak = found["allocated_before"][0], found["allocated_peak"][0]
        assert peak - before >= 4 * OUTPUT_BYTES
        assert memory.highest(found["memory_events"]) == peak - before
    weights_and_bias = 64 * 32 * 9 * 4 + 64 * 4
    assert first["forward"]["allocated_before"][0] == weights_and_bias + 4 * 32 * 26 * 26 * 4
    grown = first["forward"]["allocated_after"][0] - first["forward"]["allocated_before"][0]
    assert grown == 4 * OUTPUT_BYTES
