"""The memory of a training step: a published timeline, the prediction of it, and invariants."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import RecordError
from report.evidence.step_memory import (
    KINDS,
    Course,
    measured_steps,
    predicted_step,
    read_lifetimes,
)
from report.instruments.memory_timeline import MemoryTimeline, read_timeline
from report.records.lifetimes import Lifetimes

FOLDER = Path(__file__).parents[1] / "data" / "training_roofline" / "imported"
(LIFETIMES,) = FOLDER.glob("*/lifetimes.json.gz")
(TIMELINE,) = FOLDER.glob("*/memory_timeline.raw.gz")
GRADIENT = 5


@cache
def timeline() -> MemoryTimeline:
    return read_timeline(TIMELINE.read_bytes(), TIMELINE.name)


@cache
def predicted() -> Course:
    return predicted_step(read_lifetimes(LIFETIMES.read_bytes(), LIFETIMES.name).network)


def test_the_published_steps_are_alike() -> None:
    steps = measured_steps(timeline())
    assert len(timeline().events) == 16_845
    # Momentum of 161 parameters, and these with mean and variance of 53 normalisations, before.
    before = Counter(event.category for event in timeline().events if event.action == 1)
    assert (before[1], before[0]) == (161, 161 + 2 * 53)
    assert [step.highest("activations") for step in steps] == [2_746_497_024] * 5
    assert {step.highest("resident") for step in steps} == {102_440_608 + 102_228_128 + 19_395_584}
    assert {len(step.at) for step in steps[1:-1]} == {len(steps[1].at)}
    assert max(steps[1].total) == timeline().peak.total


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75])
def test_the_prediction_is_never_further_off_than_a_twentieth_of_the_peak(share: float) -> None:
    def level(course: Course) -> int:
        reached = max(index for index, at in enumerate(course.at) if at <= share)
        return course.bytes["activations"][reached]

    step = measured_steps(timeline())[1]
    assert abs(level(step) - level(predicted())) <= step.highest("activations") / 20


@given(st.lists(st.tuples(st.sampled_from((4, GRADIENT, 7)), st.integers(0, 4096)), max_size=40))
def test_nothing_that_was_allocated_is_lost(created: list[tuple[int, int]]) -> None:
    events = [[-1, 1, 100, 0], *([n, 2, size, c] for n, (c, size) in enumerate(created))]
    if len(events) == 1:
        return
    found = read_timeline(json.dumps(events).encode(), "timeline")
    assert found.levels[-1].total == 100 + sum(size for _, size in created)
    steps = measured_steps(found)
    assert all(tuple(step.bytes) == KINDS for step in steps)
    for step in steps:
        assert list(step.at) == sorted(step.at)
        assert step.at[-1] == 2
    if created[-1][0] == GRADIENT:  # else the last step is cut off
        assert steps[-1].total[-1] == found.levels[-1].total


def test_lifetimes_survive_the_way_through_a_network() -> None:
    found = read_lifetimes(LIFETIMES.read_bytes(), LIFETIMES.name)
    assert Lifetimes.of(found.network) == found


@pytest.mark.parametrize("content", [b"", b"{}", b'{"storages": [1]', LIFETIMES.read_bytes()[:-9]])
def test_damaged_lifetimes_are_refused(content: bytes) -> None:
    with pytest.raises(RecordError, match=r"^place: .*\.$"):
        read_lifetimes(content, "place")
