"""What a person sees of a run: the closing table, and which results may be unstable."""

from __future__ import annotations

import msgspec
import pytest

from experiments.harness.progress import Observer, instability, table
from report.records.record import Case, Round

FACTORS = {"batch": 1024, "pass": "forward_backward", "subject": "layer"}
GOOD = Case(
    factors=FACTORS,
    series={"time": (0.003, 0.001, 0.002), "allocated_peak": (718_900_000,) * 3},
)
BAD = Case(
    factors=FACTORS,
    status="out_of_memory",
    reason="Memory ran out when 400 B more were asked for.",
)


def test_the_closing_table_shows_no_zero_for_what_is_missing() -> None:
    heading, good, bad = table((GOOD, BAD)).splitlines()
    assert heading.split()[:3] == ["batch", "pass", "subject"]
    assert good.split()[3:] == ["2", "ms", "3", "718.9", "MB", "ok"]
    assert bad.split()[3:7] == ["–", "–", "–", "out_of_memory:"]
    assert heading.index("outcome") == good.index("ok") == bad.index("out_of_memory")


def test_a_factor_keeps_its_column_whatever_its_name() -> None:
    heading, row = table([msgspec.structs.replace(GOOD, factors={"samples": 16_000})]).splitlines()
    assert heading.split()[0] == "samples" and row.split()[0] == "16000"
    assert row.split()[1:4] == ["2", "ms", "3"]


def test_the_time_left_goes_by_the_pace_of_what_is_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    observer = Observer()
    observer.begin("Measuring 4 cases.")
    observer._began -= 30
    observer.progressed("size=1: ok", 0.25)
    assert capsys.readouterr().err.endswith("[25%, 2 min left] size=1: ok\n")


def in_processes(*medians: float, disturbance: str | None = None) -> Case:
    rounds = tuple(
        Round(process=n, policy="retained", disturbance=disturbance, series={"time": (time,)})
        for n, time in enumerate(medians, 1)
    )
    return Case(factors={"size": 1}, rounds=rounds)


def test_processes_that_disagree_and_disturbed_ones_are_named() -> None:
    told = instability([in_processes(1.0, 1.1), in_processes(0.001, 0.002, 0.0015)])
    assert told is not None and "1 of 2 results" in told and "1 ms to 2 ms" in told
    loud = in_processes(1.0, 1.0, disturbance="somebody")
    assert "(somebody, memory retained) and 2 more" in str(instability([loud] * 3, named=1))
    assert instability([in_processes(1.0, 1.2)]) is None
