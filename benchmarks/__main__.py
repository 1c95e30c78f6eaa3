"""``python -m benchmarks [PART …]``: measure, store the samples, write README.md.

The parts are ``builds``, ``scale``, and ``render``, which only writes README.md again.
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
#: Number of builds in each scenario.
_REPEATS: Final = 3
#: Number of builds with nothing to do, which take a fraction of a second.
_REPEATS_OF_NOOP: Final = 7


def builds() -> Iterator[tuple[str, str, Sample]]:
    """Time builds by Typst and LaTeX in every scenario; for cold builds also the engines alone."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as scratch:
        projects = [Project(engine, Path(scratch) / engine) for engine in ("Typst", "LaTeX")]
        tasks = engines.prepare(Path(scratch) / "engines", tuple(STUDIES))
        for scenario in Scenario:
            repeats = _REPEATS_OF_NOOP if scenario is Scenario.NOOP else _REPEATS
            for turn, project in product(range(repeats), projects):
                print(f"builds: {project.engine}, {scenario}, {turn + 1}", file=sys.stderr)
                project.change(scenario, turn)
                yield f"ridgepoint ({project.engine})", scenario, project.build()
                if scenario is Scenario.COLD:
                    engines_alone = engines.time_tasks(tasks, project.engine)
                    yield f"engines alone ({project.engine})", scenario, engines_alone


#: Part → function that measures it; yields a name, the scenario or size, and a sample.
MEASURED: Final[dict[str, Callable[[], Iterator[tuple[str, str, Sample]]]]] = {
    "builds": builds,
    "scale": scale.measure,
}


def render(table: pd.DataFrame) -> str:
    """Return the text of README.md; all numbers in the text come from ``table``."""
    summary = table.groupby(["part", "name", "at"], sort=False).agg(
        wall_s=("wall_s", "median"), peak=("peak_bytes", "max"), samples=("wall_s", "size")
    )
    environment_by_part = table.groupby("part")["environment"].first()
    commands, growth = summary.loc["builds"], summary.loc["scale"]
    rows = []
    for name in commands.index.unique("name"):
        rows.append((name, *(_format_build(commands, name, scenario) for scenario in Scenario)))
    cold_peaks_mb = commands.xs(Scenario.COLD, level="at")["peak"] / 1e6
    template = _TABLE.with_name("README.md.in").read_text(encoding="utf-8")
    return template.format(
        builds_environment=environment_by_part["builds"],
        times=_table(("", *Scenario), rows, len(Scenario)),
        peaks=" and ".join(f"{peak:.0f}" for peak in cold_peaks_mb if peak),
        scale_environment=environment_by_part["scale"],
        axes="\n\n".join(
            _format_growth(name, growth.loc[name]) for name in growth.index.unique("name")
        ),
    )


def _format_build(summary: pd.DataFrame, name: str, scenario: str) -> str:
    """Format the median time of builds in seconds, with the ratio to the engines alone."""
    if (name, scenario) not in summary.index:
        return "–"
    wall_s, samples = (summary.at[(name, scenario), column] for column in ("wall_s", "samples"))
    base = name.replace("ridgepoint", "engines alone"), scenario
    has_base = base != (name, scenario) and base in summary.index
    ratio = f" = {wall_s / summary.at[base, 'wall_s']:.2f} ×" if has_base else ""
    return f"{wall_s:.3f} s ({samples}){ratio}"


def _format_growth(name: str, points: pd.DataFrame) -> str:
    """Format the exponent of the growth of time, and a table of time and memory by size.

    The exponent is the slope of log(time) over log(size): 1 is linear growth, 0 no growth.
    """
    rows = [
        (f"{int(size):,}", f"{point.wall_s:.3f}", f"{point.peak / 1e6:.0f}", f"{point.samples:.0f}")
        for size, point in points.iterrows()
    ]
    log_sizes = [math.log(int(size)) for size in points.index]
    log_times = [math.log(wall_s) for wall_s in points["wall_s"]]
    exponent = f"{linear_regression(log_sizes, log_times).slope:.2f}"
    title = f"**{name}.** Exponent of time over size: {exponent}."
    headings = ("Size", "Time (s)", "Peak memory (MB)", "Samples")
    return f"{title}\n\n{_table(headings, rows, len(headings))}"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], right_aligned: int) -> str:
    """Format a Markdown table; its last ``right_aligned`` columns are aligned to the right."""
    rule = ["---"] * (len(headings) - right_aligned) + ["---:"] * right_aligned
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, rule, *rows))


def main(arguments: Sequence[str]) -> None:
    """Measure the named parts (by default all); write table and README.md after every part."""
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
