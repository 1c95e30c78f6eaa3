"""From ``results.csv`` to ``README.md``; no number is typed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import linear_regression
from typing import Final

import pandas as pd

from benchmarks.project import Scenario
from benchmarks.scale import AXES

_TEMPLATE: Final = Path(__file__).with_name("README.md.in")
TITLES: Final = {
    "ridgepoint_typst": "ridgepoint (Typst)",
    "engines_typst": "engines alone (Typst)",
    "ridgepoint_latex": "ridgepoint (LaTeX)",
    "engines_latex": "engines alone (LaTeX)",
}


def render(table: pd.DataFrame) -> str:
    """The whole page."""
    found = table.groupby(["name", "at"], sort=False).agg(
        wall=("wall_s", "median"), peak=("peak_bytes", "max"), samples=("wall_s", "size")
    )
    rows = [(TITLES[name], *(_build(found, name, at) for at in Scenario)) for name in TITLES]
    measured = table.groupby("part")["environment"].first()
    cold = [found.at[(name, Scenario.COLD), "peak"] / 1e6 for name in (*TITLES,)[::2]]
    return _TEMPLATE.read_text(encoding="utf-8").format(
        builds_environment=measured["builds"],
        times=_table(("", *Scenario), rows, len(Scenario)),
        peaks=" and ".join(f"{peak:.0f}" for peak in cold),
        scale_environment=measured["scale"],
        axes="\n\n".join(_axis(found.loc[axis], AXES[axis]) for axis in AXES),
    )


def _build(found: pd.DataFrame, name: str, at: str) -> str:
    """The median in seconds, with the ratio to the engines alone."""
    if (name, at) not in found.index:
        return "–"
    wall, base = found.at[(name, at), "wall"], (name.replace("ridgepoint", "engines"), at)
    compared = base != (name, at) and base in found.index
    ratio = f" = {wall / found.at[base, 'wall']:.2f} ×" if compared else ""
    return f"{wall:.3f} s ({found.at[(name, at), 'samples']}){ratio}"


def _axis(points: pd.DataFrame, words: str) -> str:
    """Time and memory for each size, and above it the exponent of their growth.

    That is the slope of log(time) over log(size): 1 is linear growth, 0 none.
    """
    rows = [
        (f"{int(size):,}", f"{point.wall:.3f}", f"{point.peak / 1e6:.0f}", f"{point.samples:.0f}")
        for size, point in points.iterrows()
    ]
    logs = [math.log(int(size)) for size in points.index], [*map(math.log, points["wall"])]
    grows = f"{linear_regression(*logs).slope:.2f}"
    title = f"**{words[0].upper()}{words[1:]}.** Exponent of time over size: {grows}."
    headings = ("Size", "Time (s)", "Peak memory (MB)", "Samples")
    return f"{title}\n\n{_table(headings, rows, len(headings))}"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> str:
    """A pipe table; the last ``numbers`` columns are flush right."""
    rule = ["---"] * (len(headings) - numbers) + ["---:"] * numbers
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, rule, *rows))
