"""From ``results.json`` to ``README.md``; no number is typed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import linear_regression, median
from typing import Final

from benchmarks.results import Builds, Point, Results, Sample, Scale, Scenario
from benchmarks.scale import AXES

_TEMPLATE: Final = Path(__file__).with_name("README.md.in")
TITLES: Final = {
    "ridgepoint_typst": "ridgepoint (Typst)",
    "engines_typst": "engines alone (Typst)",
    "ridgepoint_latex": "ridgepoint (LaTeX)",
    "engines_latex": "engines alone (LaTeX)",
}
_NONE: Final = "–"


def render(results: Results) -> str:
    """The whole page; a part that was not measured says so."""
    none = "Not measured."
    builds, grown = results.builds, results.scale
    return _TEMPLATE.read_text(encoding="utf-8").format(
        builds_environment=builds.environment if builds else none,
        times=times_table(builds) if builds else none,
        scale_environment=grown.environment if grown else none,
        axes=scale_tables(grown) if grown else "",
    )


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> str:
    """A pipe table; the last ``numbers`` columns are flush right."""
    rule = ["---"] * (len(headings) - numbers) + ["---:"] * numbers
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, rule, *rows))


def wall(samples: Sequence[Sample]) -> float:
    """The median wall time in seconds; raises ``StatisticsError`` without samples."""
    return median(sample.wall_s for sample in samples)


def times_table(builds: Builds) -> str:
    """Medians in seconds, with the ratio to the engines alone."""
    found = {(timed.tool, timed.scenario): timed for timed in builds.timed if timed.samples}

    def cell(tool: str, scenario: Scenario) -> str:
        timed = found.get((tool, scenario))
        if timed is None:
            return _NONE
        base = found.get((tool.replace("ridgepoint", "engines"), scenario), timed)
        seconds = wall(timed.samples)
        ratio = "" if base is timed else f" = {seconds / wall(base.samples):.2f} ×"
        return f"{seconds:.3f} s ({len(timed.samples)}){ratio}"

    rows = [(title, *(cell(tool, s) for s in Scenario)) for tool, title in TITLES.items()]
    return table(("", *(s.value for s in Scenario)), rows, len(Scenario))


def scale_tables(grown: Scale) -> str:
    """One table an axis."""
    axes = {axis: [point for point in grown.points if point.axis == axis] for axis in AXES}
    return "\n\n".join(axis_table(axis, points) for axis, points in axes.items() if points)


def axis_table(axis: str, points: Sequence[Point]) -> str:
    """Time and memory for each size, and above it the exponent of their growth."""
    sizes = [float(point.size) for point in points]
    times = [wall(point.samples) for point in points]
    rows = [
        (
            f"{point.size:,}",
            f"{seconds:.3f}",
            f"{median(sample.peak_bytes for sample in point.samples) / 1e6:.0f}",
            _NONE if point.input_bytes is None else f"{point.input_bytes / 1e6:.1f}",
            f"{len(point.samples)}",
        )
        for point, seconds in zip(points, times, strict=True)
    ]
    exponent = slope(sizes, times)
    grows = _NONE if exponent is None else f"{exponent:.2f}"
    title = f"**{AXES[axis][0].upper()}{AXES[axis][1:]}.** Exponent of time over size: {grows}."
    headings = ("Size", "Time (s)", "Peak memory (MB)", "Input (MB)", "Samples")
    return f"{title}\n\n{table(headings, rows, len(headings))}"


def slope(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The exponent of a power law through the points: least squares of log(value) over log(size).

    1 is linear growth, 0 none.  None where fewer than two sizes differ, or a value is not positive.
    """
    if len(set(sizes)) < 2 or min((*sizes, *values)) <= 0:
        return None
    return linear_regression([*map(math.log, sizes)], [*map(math.log, values)]).slope
