"""``python -m benchmarks [PART …]``: measure, keep the samples, write the page.

The parts are ``builds``, ``scale`` and ``render``, which writes the page anew and nothing else.
``results.csv`` has a row a sample; ratios are formed within one part, which is measured in one run.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import linear_regression
from typing import Final

import pandas as pd

from benchmarks import engines, scale
from benchmarks.project import Project, SampleProject, Scenario, environment
from report.studies import STUDIES

_TABLE: Final = Path(__file__).with_name("results.csv")


def builds() -> Iterator[tuple[str, str, SampleProject]]:
    """In each turn of a scenario ridgepoint's two routes and their engines go one by one."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as scratch:
        projects = [Project(engine, Path(scratch) / engine) for engine in ("Typst", "LaTeX")]
        tasks = engines.prepare(Path(scratch) / "engines", tuple(STUDIES))
        for scenario in Scenario:
            repeats = 7 if scenario is Scenario.NOOP else 3
            for turn, project in product(range(repeats), projects):
                print(f"builds: {project.engine}, {scenario}, {turn + 1}", file=sys.stderr)
                project.change(scenario, turn)
                yield f"ridgepoint ({project.engine})", scenario, project.build()
                if scenario is Scenario.COLD:
                    bare = engines.makespan(tasks, project.engine)
                    yield f"engines alone ({project.engine})", scenario, bare


#: Each yields what was measured, at which scenario or size, and the sample.
MEASURED: Final[dict[str, Callable[[], Iterator[tuple[str, str, SampleProject]]]]] = {
    "builds": builds,
    "scale": scale.measure,
}


def render(table: pd.DataFrame) -> str:
    """The page README.md; no number of it is typed."""
    found = table.groupby(["part", "name", "at"], sort=False).agg(
        wall=("wall_s", "median"), peak=("peak_bytes", "max"), samples=("wall_s", "size")
    )
    measured = table.groupby("part")["environment"].first()
    commands, growth = found.loc["builds"], found.loc["scale"]
    names = commands.index.unique("name")
    rows = [(name, *(_build(commands, name, at) for at in Scenario)) for name in names]
    cold = commands.xs(Scenario.COLD, level="at")["peak"] / 1e6
    text = _TABLE.with_name("README.md.in").read_text(encoding="utf-8")
    return text.format(
        builds_environment=measured["builds"],
        times=_table(("", *Scenario), rows, len(Scenario)),
        peaks=" and ".join(f"{peak:.0f}" for peak in cold if peak),
        scale_environment=measured["scale"],
        axes="\n\n".join(_axis(name, growth.loc[name]) for name in growth.index.unique("name")),
    )


def _build(found: pd.DataFrame, name: str, at: str) -> str:
    """The median in seconds, with the ratio to the engines alone."""
    if (name, at) not in found.index:
        return "–"
    wall, base = found.at[(name, at), "wall"], (name.replace("ridgepoint", "engines alone"), at)
    compared = base != (name, at) and base in found.index
    ratio = f" = {wall / found.at[base, 'wall']:.2f} ×" if compared else ""
    return f"{wall:.3f} s ({found.at[(name, at), 'samples']}){ratio}"


def _axis(name: str, points: pd.DataFrame) -> str:
    """Time and memory for each size, and above it the exponent of their growth.

    That is the slope of log(time) over log(size): 1 is linear growth, 0 none.
    """
    rows = [
        (f"{int(size):,}", f"{point.wall:.3f}", f"{point.peak / 1e6:.0f}", f"{point.samples:.0f}")
        for size, point in points.iterrows()
    ]
    logs = [math.log(int(size)) for size in points.index], [*map(math.log, points["wall"])]
    grows = f"{linear_regression(*logs).slope:.2f}"
    title = f"**{name}.** Exponent of time over size: {grows}."
    headings = ("Size", "Time (s)", "Peak memory (MB)", "Samples")
    return f"{title}\n\n{_table(headings, rows, len(headings))}"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> str:
    """A pipe table; the last ``numbers`` columns are flush right."""
    rule = ["---"] * (len(headings) - numbers) + ["---:"] * numbers
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, rule, *rows))


def main(arguments: Sequence[str]) -> None:
    """Measure the parts that are named, or all, and write both files after each."""
    parts = (*MEASURED, "render")
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", choices=parts, default=parts)
    table = pd.read_csv(_TABLE, dtype={"at": str})
    for part in parser.parse_args(arguments).part:
        if part in MEASURED:
            where = environment()
            rows = [(part, where, name, at, *sample) for name, at, sample in MEASURED[part]()]
            new = pd.DataFrame(rows, columns=table.columns)
            table = pd.concat([table[table["part"] != part], new])
        table.to_csv(_TABLE, index=False)
        _TABLE.with_name("README.md").write_text(render(table), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
