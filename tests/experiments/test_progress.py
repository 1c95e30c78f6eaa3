"""What a person sees of a run: the closing table, the bar, the lines."""

from __future__ import annotations

import io

from rich.console import Console

from experiments.harness.progress import instability, table
from report.records.record import Case, Round

GOOD = Case(
    factors={"batch": 1024, "pass": "forward_backward", "subject": "layer"},
    status="ok",
    reason=None,
    layers=(),
    series={"time": (0.003, 0.001, 0.002), "allocated_peak": (718_900_000,) * 3},
)
BAD = Case(
    factors={"batch": 2048, "pass": "forward_backward", "subject": "layer"},
    status="out_of_memory",
    reason="Memory ran out when 400 B more were asked for.",
)


def test_the_closing_table_fits_a_terminal_and_shows_no_zero_for_what_is_missing() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(table((GOOD, BAD)))
    lines = [line.split() for line in out.getvalue().splitlines() if line.strip()]
    assert lines[2][-6:] == ["2", "ms", "3", "718.9", "MB", "ok"]
    assert out.getvalue().count("–") == 3 and "out_of_memory" in out.getvalue()


# ----------------------------------------------------------------------------------- stability


def in_processes(*medians: float, disturbance: str | None = None) -> Case:
    rounds = tuple(
        Round(
            process=process,
            policy="retained",
            disturbance=disturbance,
            series={"time": (time,)},
        )
        for process, time in enumerate(medians, 1)
    )
    return Case(factors={"size": 1}, rounds=rounds)


def test_processes_that_disagree_are_named_with_both_ends() -> None:
    told = instability([in_processes(1.0, 1.1), in_processes(0.001, 0.002, 0.0015)])
    assert told is not None and "1 of 2 results" in told and "1 ms to 2 ms" in told
