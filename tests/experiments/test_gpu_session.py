"""All that papers need of a GPU in one command: its parts are possible, and it ends in time."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
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
        study, protocol, cases = request.selected()
        assert cases
        assert protocol.plan == "custom" and protocol.case_budget_s == part.budget
        # What a reader refuses is found before half an hour of a GPU is spent on it.
        assert msgspec.convert(msgspec.to_builtins(protocol), Protocol) == protocol
        assert part.counters == "none" or study.subject is not None


@pytest.mark.parametrize(
    ("durations", "errors"),
    [
        ({}, {}),  # all parts would take longer than there is time
        ({"inference_memory": 0.0}, {}),  # what one leaves falls to those after it
        ({}, {"conv_scaling": MeasurementError("No device.")}),
    ],
)
def test_all_parts_end_in_time_and_one_that_fails_stops_no_other(
    durations: dict[str, float],
    errors: dict[str, Exception],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    now, limit, closed = 0.0, 0.0, list[str]()

    def run(request: Request, observer: object) -> tuple[None, Path]:
        nonlocal now
        lasts = durations.get(request.study, 1e9)
        now += min(lasts, limit)
        if request.study in errors:
            raise errors[request.study]
        if lasts > limit:
            raise StoppedError("Interrupted.", KeyboardInterrupt())
        return None, Path(f"{request.study}.json")

    def close(study: str, records: Path, observer: object) -> tuple[tuple[None, Path], ...]:
        closed.append(study)
        return ((None, Path(f"{study}.json")),)

    def limited(seconds: float) -> Any:
        nonlocal limit
        limit = seconds
        return nullcontext()

    monkeypatch.setattr(gpu_session, "run", run)
    monkeypatch.setattr(gpu_session, "close", close)
    monkeypatch.setattr(gpu_session, "_ended_after", limited)
    monkeypatch.setattr(gpu_session.time, "monotonic", lambda: now)
    nobody: Any = None
    code = gpu_session.measure_all("cuda", 10, Path(), nobody)
    said = capsys.readouterr().out.splitlines()
    assert code == len(errors)
    assert now == pytest.approx(600)
    studies = [part.study for part in gpu_session.PARTS]
    assert [line.partition(":")[0] for line in said] == studies
    assert closed == [study for study in studies if study not in (*durations, *errors)]
    assert all(str(error) in "".join(said) for error in errors.values())
