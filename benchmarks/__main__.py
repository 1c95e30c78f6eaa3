"""``python -m benchmarks [PART …]``: measure, keep the samples, write the page.

The parts are ``builds``, ``scale`` and ``render``, which writes the page anew and nothing else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import engines, page, scale
from benchmarks.project import Project
from benchmarks.results import Results, Sample, Scenario, Series, environment
from report.studies import STUDIES

_HERE: Final = Path(__file__).parent


def builds() -> Iterator[Series]:
    """In each turn of a scenario ridgepoint's two routes and their engines go one by one."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as scratch:
        projects = [Project(engine, Path(scratch) / engine) for engine in ("typst", "latex")]
        tasks = engines.prepare(Path(scratch) / "engines", tuple(STUDIES))
        for scenario in Scenario:
            yield from _in_turns(scenario, projects, tasks)


def _in_turns(
    scenario: Scenario, projects: Sequence[Project], tasks: Sequence[engines.Task]
) -> Iterator[Series]:
    samples: dict[str, list[Sample]] = {}
    repeats = 7 if scenario is Scenario.NOOP else 3
    for turn, project in product(range(repeats), projects):
        print(f"builds: {project.engine}, {scenario}, {turn + 1}", file=sys.stderr)
        own = f"ridgepoint_{project.engine}"
        project.change(scenario, turn)
        samples.setdefault(own, []).append(project.build())
        if scenario is Scenario.COLD:
            bare = engines.makespan(tasks, project.engine)
            samples.setdefault(f"engines_{project.engine}", []).append(bare)
    for name, found in samples.items():
        yield Series(part="builds", name=name, at=scenario, samples=tuple(found))


MEASURED: Final[dict[str, Callable[[], Iterator[Series]]]] = {
    "builds": builds,
    "scale": scale.measure,
}


def main(arguments: Sequence[str]) -> None:
    """Measure the parts that are named, or all, and write both files after each."""
    parts = (*MEASURED, "render")
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", metavar="PART", help=", ".join(parts))
    options = parser.parse_args(arguments)
    if unknown := set(options.part) - set(parts):
        parser.error(f"no part {min(unknown)!r}; the parts are {', '.join(parts)}")
    kept, results = _HERE / "results.json", Results()
    if kept.exists():
        results = msgspec.json.decode(kept.read_bytes(), type=Results)
    for part in options.part or parts:
        if part in MEASURED:
            environments = {**results.environments, part: environment()}
            others = (series for series in results.series if series.part != part)
            results = Results(environments, (*others, *MEASURED[part]()))
        kept.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
        (_HERE / "README.md").write_text(page.render(results), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
