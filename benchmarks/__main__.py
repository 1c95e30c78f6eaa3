"""``python -m benchmarks [PART …]``: measure, keep the samples, write the page.

The parts are ``builds``, ``scale`` and ``render``, which writes the page anew and nothing else.
``results.csv`` has a row a sample; ratios are formed within one part, which is measured in one run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

import pandas as pd

from benchmarks import engines, page, scale
from benchmarks.commands import Sample, environment
from benchmarks.project import Project, Scenario
from report.studies import STUDIES

_TABLE: Final = Path(__file__).with_name("results.csv")


def builds() -> Iterator[tuple[str, str, Sample]]:
    """In each turn of a scenario ridgepoint's two routes and their engines go one by one."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as scratch:
        projects = [Project(engine, Path(scratch) / engine) for engine in ("typst", "latex")]
        tasks = engines.prepare(Path(scratch) / "engines", tuple(STUDIES))
        for scenario in Scenario:
            repeats = 7 if scenario is Scenario.NOOP else 3
            for turn, project in product(range(repeats), projects):
                print(f"builds: {project.engine}, {scenario}, {turn + 1}", file=sys.stderr)
                project.change(scenario, turn)
                yield f"ridgepoint_{project.engine}", scenario, project.build()
                if scenario is Scenario.COLD:
                    bare = engines.makespan(tasks, project.engine)
                    yield f"engines_{project.engine}", scenario, bare


#: Each yields what was measured, at which scenario or size, and the sample.
MEASURED: Final[dict[str, Callable[[], Iterator[tuple[str, str, Sample]]]]] = {
    "builds": builds,
    "scale": scale.measure,
}


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
        _TABLE.with_name("README.md").write_text(page.render(table), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
