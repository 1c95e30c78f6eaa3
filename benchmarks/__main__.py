"""``python -m benchmarks [PART …]``: measure, keep the samples, write the page.

The parts are ``builds``, ``scale`` and ``render``, which writes the page anew and nothing else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import engines, page, scale
from benchmarks.project import Project
from benchmarks.results import Builds, Results, Sample, Scale, Scenario, Timed, environment

PARTS: Final = ("builds", "scale", "render")
#: Repetitions of each scenario.
REPEATS: Final = {**dict.fromkeys(Scenario, 3), Scenario.NOOP: 7}
_HERE: Final = Path(__file__).parent


def builds() -> Builds:
    """In each turn of a scenario ridgepoint's two routes and their engines go one by one."""
    begun, timed = environment(), []
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as scratch:
        prepared = Path(scratch) / "engines"
        projects = [Project(engine, Path(scratch) / engine) for engine in ("typst", "latex")]
        for scenario in Scenario:
            samples: dict[str, list[Sample]] = {}
            faults: dict[str, list[str]] = {}
            for turn in range(REPEATS[scenario]):
                for project in projects:
                    print(f"builds: {project.engine}, {scenario}, {turn + 1}", file=sys.stderr)
                    own, bare = f"ridgepoint_{project.engine}", f"engines_{project.engine}"
                    if scenario is not Scenario.STYLE or project.engine == "latex":
                        project.change(scenario, turn)
                        samples.setdefault(own, []).append(project.build())
                        last = turn == REPEATS[scenario] - 1
                        faults.setdefault(own, []).extend(project.faults(scenario, last))
                    if scenario is Scenario.COLD:
                        sample = engines.measured(prepared, project.engine)
                        samples.setdefault(bare, []).append(sample)
            timed += [
                Timed(tool=tool, scenario=scenario, samples=tuple(found),
                      faults=tuple(dict.fromkeys(faults.get(tool, ()))))
                for tool, found in samples.items()
            ]  # fmt: skip
    return Builds(environment=begun, timed=tuple(timed))


def main(arguments: Sequence[str]) -> None:
    """Measure the parts that are named, or all, and write both files after each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", metavar="PART", help=", ".join(PARTS))
    options = parser.parse_args(arguments)
    if unknown := set(options.part) - set(PARTS):
        parser.error(f"no part {min(unknown)!r}; the parts are {', '.join(PARTS)}")
    parts, kept = options.part or PARTS, _HERE / "results.json"
    results = Results()
    if kept.exists():
        results = msgspec.json.decode(kept.read_bytes(), type=Results)
    for part in parts:
        if part == "builds":
            results = msgspec.structs.replace(results, builds=builds())
        elif part == "scale":
            begun, points = environment(), tuple(scale.measure())
            grown = Scale(environment=begun, points=points)
            results = msgspec.structs.replace(results, scale=grown)
        kept.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
        (_HERE / "README.md").write_text(page.render(results), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
