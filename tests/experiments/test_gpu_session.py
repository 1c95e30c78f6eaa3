"""All that papers need of a GPU in one command: its parts are possible, and it ends in time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from experiments import gpu_session
from experiments.harness.request import Request
from experiments.harness.run import StoppedError
from report.errors import MeasurementError
from report.records.record import Protocol


def test_every_part_leaves_cases_and_work_to_count_where_it_counts() -> None:
    for part in gpu_session.PARTS:
        request = gpu_session.request_of(part, "cuda", 60.0, Path())
        study, plan, cases = request.selected()
        assert cases
        assert plan.protocol.plan == "custom" and plan.protocol.case_budget_s == part.budget
        # What a reader refuses is found before half an hour of a GPU is spent on it.
        assert msgspec.convert(msgspec.to_builtins(plan.protocol), Protocol) == plan.protocol
        assert part.counters == "none" or study.subject is not None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Parts that take the time that ``durations`` says, or end with an error; no alarm rings."""
    state = SimpleNamespace(now=0.0, limits=[], durations={}, errors={}, closed=[])

    def run(request: Request, observer: object) -> tuple[None, Path]:
        limit = state.limits[-1]
        state.now += min(state.durations.get(request.study, 1e9), limit)
        if request.study in state.errors:
            raise state.errors[request.study]
        if state.durations.get(request.study, 1e9) > limit:
            raise StoppedError("Interrupted.", KeyboardInterrupt())
        return None, Path(f"{request.study}.json")

    def close(study: str, records: Path) -> tuple[tuple[None, Path], ...]:
        state.closed.append(study)
        return ((None, Path(f"{study}.json")),)

    def limited(seconds: float) -> Any:
        state.limits.append(seconds)
        return pytest.MonkeyPatch.context()  # any context that does nothing

    monkeypatch.setattr(gpu_session, "run", run)
    monkeypatch.setattr(gpu_session, "close", close)
    monkeypatch.setattr(gpu_session, "_ended_after", limited)
    monkeypatch.setattr(gpu_session.time, "monotonic", lambda: state.now)
    return state


def measured(clock: Any, minutes: float) -> tuple[int, list[str]]:
    said: list[str] = []
    code = gpu_session.measure_all("cuda", minutes, Path(), SimpleNamespace(), said.append)  # type: ignore[arg-type]
    return code, said


def test_parts_that_would_take_longer_end_in_time_with_records(clock: Any) -> None:
    code, said = measured(clock, 10)
    assert code == 0
    assert clock.now == pytest.approx(600)
    assert clock.closed == [part.study for part in gpu_session.PARTS]
    assert len(said) == len(gpu_session.PARTS)


def test_time_that_a_part_leaves_falls_to_those_after_it(clock: Any) -> None:
    first = gpu_session.PARTS[0].study
    clock.durations = {first: 0.0}
    measured(clock, 10)
    assert clock.now == pytest.approx(600)
    assert first not in clock.closed


def test_a_part_that_fails_stops_no_other_and_ends_in_an_error(clock: Any) -> None:
    clock.errors = {"conv_scaling": MeasurementError("No device.")}
    code, said = measured(clock, 10)
    assert code == 1
    assert any("No device." in line for line in said)
    assert len(said) == len(gpu_session.PARTS)


def test_an_alarm_ends_what_takes_longer() -> None:
    with pytest.raises(KeyboardInterrupt), gpu_session._ended_after(0.01):
        while True:
            pass
