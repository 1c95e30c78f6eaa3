"""A study as small as one can be: one number, one table, one figure.

``benchmarks.synthetic`` copies it into a copy of the project, where it stands under many names.
"""

from __future__ import annotations

from figures.canvas import Drawing
from figures.points import Points
from figures.scaling import Scaling
from report.paper.findings import Figure, Findings, Inputs
from report.paper.tables import Column, Table
from report.paper.values import Value


def findings(inputs: Inputs) -> Findings:
    """The first time of every case of the one record."""
    stored = inputs.records[0]
    times = tuple(case.samples("time")[0] for case in stored.record.cases)
    numbers = tuple(range(1, len(times) + 1))
    return Findings(
        values={"total": _total(times, stored.file)},
        tables={"tbl-times": _table(numbers, times)},
        figures={"fig-times": _figure(numbers, times)},
    )


def _total(times: tuple[float, ...], file: str) -> Value:
    return Value("total", "total", sum(times), "s", "sum of the times", (file,))


def _table(numbers: tuple[int, ...], times: tuple[float, ...]) -> Table:
    columns = (Column("Case", "1"), Column("Time", "s", "ms"))
    return Table(
        "tbl-times", "Times of all cases.", columns, tuple(zip(numbers, times, strict=True))
    )


def _figure(numbers: tuple[int, ...], times: tuple[float, ...]) -> Figure:
    points = Points("time", tuple(map(float, numbers)), times)
    drawing = Drawing((Scaling("case", "time (s)", (points,)),))
    return Figure("fig-times", "Times of all cases.", "A point for each case.", drawing)
