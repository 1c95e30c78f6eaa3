"""All that papers need of a GPU in one command: its parts are possible, and it ends in time."""

from __future__ import annotations

import signal
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from experiments import gpu_session
from experiments.harness.request import Request
from report.errors import MeasurementError
from report.records.record import Protocol

NOBODY: Any = None


def test_every_part_leaves_cases_and_work_to_count_where_it_counts() -> None:
    for part in gpu_session.PARTS:
        study, protocol, cases = gpu_session.request_of(part, 60.0, Path()).selected()
        assert cases
        assert protocol.plan == "custom" and protocol.case_budget_s == part.budget
        # What a reader refuses is found before half an hour of a GPU is spent on it.
        assert msgspec.convert(msgspec.to_builtins(protocol), Protocol) == protocol
        assert part.request.counters == "none" or study.subject is not None


def test_time_that_is_over_ends_a_part_and_a_person_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(KeyboardInterrupt) as caught, gpu_session._ended_after(0.01):
        time.sleep(60)
    assert caught.value.args == (signal.SIGALRM,)

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt(signal.SIGTERM)

    monkeypatch.setattr(gpu_session, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        gpu_session.measure_all("cuda", 10, Path(), NOBODY)


def test_all_parts_end_in_time_and_one_that_fails_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first leaves its time to others, one fails, and the rest would take too long."""
    now, limit, closed = 0.0, 0.0, list[str]()

    def run(request: Request, observer: object) -> tuple[None, Path]:
        nonlocal now
        if request.study == "inference_memory":
            return None, Path("whole.zip")
        now += limit
        if request.study == "conv_scaling":
            raise MeasurementError("No device.")
        raise KeyboardInterrupt(signal.SIGALRM)

    def close(study: str, records: Path) -> tuple[tuple[None, Path], ...]:
        closed.append(study)
        return ((None, Path("part.zip")),)

    def limited(seconds: float) -> Any:
        nonlocal limit
        limit = seconds
        return nullcontext()

    for name, double in (("run", run), ("close", close), ("_ended_after", limited)):
        monkeypatch.setattr(gpu_session, name, double)
    monkeypatch.setattr(gpu_session.time, "monotonic", lambda: now)
    assert gpu_session.measure_all("cuda", 10, Path(), NOBODY) == 1
    assert now == pytest.approx(600)
    assert closed == ["conv_profiling", "training_roofline", "backend_speedup"]
    assert capsys.readouterr().out.splitlines() == [
        "inference_memory: whole.zip",
        "conv_profiling: part.zip (its 95 s were over)",
        "training_roofline: part.zip (its 189 s were over)",
        "conv_scaling: No device.",
        "backend_speedup: part.zip (its 221 s were over)",
    ]
