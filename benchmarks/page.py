"""From ``results.json`` to ``README.md``; no number is typed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import linear_regression, median
from typing import Final

from benchmarks.results import Results, Scenario, Series
from benchmarks.scale import AXES

_TEMPLATE: Final = Path(__file__).with_name("README.md.in")
TITLES: Final = {
    "ridgepoint_typst": "ridgepoint (Typst)",
    "engines_typst": "engines alone (Typst)",
    "ridgepoint_latex": "ridgepoint (LaTeX)",
    "engines_latex": "engines alone (LaTeX)",
}


def render(results: Results) -> str:
    """The whole page; a part that was not measured says so."""
    found = {(series.name, series.at): series for series in results.series}
    rows = [(TITLES[name], *(_build(found, name, at) for at in Scenario)) for name in TITLES]
    axes = ([s for s in results.series if s.name == axis] for axis in AXES)
    return _TEMPLATE.read_text(encoding="utf-8").format(
        builds_environment=results.environments.get("builds", "Not measured."),
        times=_table(("", *Scenario), rows, len(Scenario)),
        scale_environment=results.environments.get("scale", "Not measured."),
        axes="\n\n".join(_axis(points) for points in axes if points),
    )


def _build(found: dict[tuple[str, str], Series], name: str, at: str) -> str:
    """The median in seconds, with the ratio to the engines alone."""
    series = found.get((name, at))
    if series is None:
        return "–"
    base = found.get((name.replace("ridgepoint", "engines"), at), series)
    ratio = "" if base is series else f" = {_wall(series) / _wall(base):.2f} ×"
    return f"{_wall(series):.3f} s ({len(series.samples)}){ratio}"


def _wall(series: Series) -> float:
    return median(sample.wall_s for sample in series.samples)


def _axis(points: Sequence[Series]) -> str:
    """Time and memory for each size, and above it the exponent of their growth.

    That is the slope of log(time) over log(size): 1 is linear growth, 0 none.
    """
    sizes = [int(point.at) for point in points]
    rows = [
        (
            f"{size:,}",
            f"{_wall(point):.3f}",
            f"{median(sample.peak_bytes for sample in point.samples) / 1e6:.0f}",
            f"{len(point.samples)}",
        )
        for size, point in zip(sizes, points, strict=True)
    ]
    logs = [*map(math.log, sizes)], [math.log(_wall(point)) for point in points]
    grows = f"{linear_regression(*logs).slope:.2f}"
    words = AXES[points[0].name]
    title = f"**{words[0].upper()}{words[1:]}.** Exponent of time over size: {grows}."
    headings = ("Size", "Time (s)", "Peak memory (MB)", "Samples")
    return f"{title}\n\n{_table(headings, rows, len(headings))}"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> str:
    """A pipe table; the last ``numbers`` columns are flush right."""
    rule = ["---"] * (len(headings) - numbers) + ["---:"] * numbers
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, rule, *rows))
