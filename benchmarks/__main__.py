"""``python -m benchmarks [PART …]``: measure, store the samples, write the page.

The parts are ``builds``, ``scale``, and ``render``, which only writes the page again.
``results.csv`` has one row per sample.  Ratios compare samples of one part, measured in one run.
"""

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
from benchmarks.project import Project, Sample, Scenario, environment
from report.studies import STUDIES

_TABLE: Final = Path(__file__).with_name("results.csv")


def builds() -> Iterator[tuple[str, str, Sample]]:
    """Time builds by both engines in every scenario, and the engines alone in the cold scenario."""
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


#: Part → function that measures it and yields a name, the scenario or size, and a sample.
MEASURED: Final[dict[str, Callable[[], Iterator[tuple[str, str, Sample]]]]] = {
    "builds": builds,
    "scale": scale.measure,
}


def render(table: pd.DataFrame) -> str:
    """Return the text of README.md; all numbers in the text come from ``table``."""
    summary = table.groupby(["part", "name", "at"], sort=False).agg(
        wall=("wall_s", "median"), peak=("peak_bytes", "max"), samples=("wall_s", "size")
    )
    measured = table.groupby("part")["environment"].first()
    commands, growth = summary.loc["builds"], summary.loc["scale"]
    names = commands.index.unique("name")
    rows = [(name, *(_build(commands, name, scenario) for scenario in Scenario)) for name in names]
    cold = commands.xs(Scenario.COLD, level="at")["peak"] / 1e6
    text = _TABLE.with_name("README.md.in").read_text(encoding="utf-8")
    return text.format(
        builds_environment=measured["builds"],
        times=_table(("", *Scenario), rows, len(Scenario)),
        peaks=" and ".join(f"{peak:.0f}" for peak in cold if peak),
        scale_environment=measured["scale"],
        axes="\n\n".join(_axis(name, growth.loc[name]) for name in growth.index.unique("name")),
    )


def _build(summary: pd.DataFrame, name: str, scenario: str) -> str:
    """Print the median time of builds in seconds, with the ratio to the engines alone."""
    if (name, scenario) not in summary.index:
        return "–"
    wall, samples = (summary.at[(name, scenario), column] for column in ("wall", "samples"))
    base = name.replace("ridgepoint", "engines alone"), scenario
    has_base = base != (name, scenario) and base in summary.index
    ratio = f" = {wall / summary.at[base, 'wall']:.2f} ×" if has_base else ""
    return f"{wall:.3f} s ({samples}){ratio}"


def _axis(name: str, points: pd.DataFrame) -> str:
    """Print the exponent of the growth of time, and a table of time and memory by size.

    The exponent is the slope of log(time) over log(size): 1 is linear growth, 0 is none.
    """
    rows = [
        (f"{int(size):,}", f"{point.wall:.3f}", f"{point.peak / 1e6:.0f}", f"{point.samples:.0f}")
        for size, point in points.iterrows()
    ]
    logs = [math.log(int(size)) for size in points.index], [*map(math.log, points["wall"])]
    exponent = f"{linear_regression(*logs).slope:.2f}"
    title = f"**{name}.** Exponent of time over size: {exponent}."
    headings = ("Size", "Time (s)", "Peak memory (MB)", "Samples")
    return f"{title}\n\n{_table(headings, rows, len(headings))}"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> str:
    """Format a pipe table; its last ``numbers`` columns are flush right."""
    rule = ["---"] * (len(headings) - numbers) + ["---:"] * numbers
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, rule, *rows))


def main(arguments: Sequence[str]) -> None:
    """Measure the named parts (by default all), and write table and page after every part."""
    parts = (*MEASURED, "render")
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", choices=parts, default=parts)
    table = pd.read_csv(_TABLE, dtype={"at": str})
    for part in parser.parse_args(arguments).part:
        if part in MEASURED:
            machine = environment()
            rows = [(part, machine, name, at, *sample) for name, at, sample in MEASURED[part]()]
            new = pd.DataFrame(rows, columns=table.columns)
            table = pd.concat([table[table["part"] != part], new])
        table.to_csv(_TABLE, index=False)
        _TABLE.with_name("README.md").write_text(render(table), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
