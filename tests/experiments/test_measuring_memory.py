"""Bytes of a call on a CPU, from the profiler's events."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from experiments.harness import memory


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


@given(st.lists(st.integers(-1000, 1000)), st.lists(st.integers(-1000, 1000)))
def test_levels_are_running_sums_of_all_events(build: list[int], call: list[int]) -> None:
    found, levels = memory.Allocations(tuple(build), tuple(call)), [0, *accumulate(build + call)]
    assert (found.before, found.after) == (levels[len(build)], levels[-1])
    assert found.peak == max(levels[len(build) :])
