"""``python -m benchmarks [PART …]``: measure, keep the samples, write the page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import builds, checks, filtering, page, scale
from benchmarks.peers.install import CACHE
from benchmarks.progress import teller
from benchmarks.results import Results, read, write

PARTS: Final = ("builds", "scale", "filter", "checks", "render")
_HERE: Final = Path(__file__).parent


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with 2 if it cannot be understood."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (all)")
    parser.add_argument("--only", default="", help="tools of the part builds, by comma (all)")
    parser.add_argument("--largest", type=int, help="leave out larger sizes of the part scale")
    parser.add_argument("--repeats", type=int, help="repetitions of every scenario, 1 to 6")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where peers are installed")
    parser.add_argument("--out", type=Path, default=_HERE, help="where results.json and page go")
    options = parser.parse_args(arguments)
    for part in options.part:
        if part not in PARTS:
            parser.error(f"no part {part!r}; the parts are {', '.join(PARTS)}")
    if options.repeats is not None and not 1 <= options.repeats <= 6:
        parser.error("--repeats: expected a number from 1 to 6")
    return options


def main(arguments: Sequence[str]) -> None:
    """Measure the parts that are named, or all, and write both files after each."""
    options = parse(arguments)
    parts = options.part or PARTS
    results = read(options.out / "results.json")
    if "builds" in parts:
        results = _keep(_with_builds(results, options), options.out)
    if "scale" in parts:
        measured = scale.measure(teller("scale"), options.largest)
        results = _keep(msgspec.structs.replace(results, scale=measured), options.out)
    if "filter" in parts:
        added = filtering.measure(teller("filter"))
        results = _keep(msgspec.structs.replace(results, filtering=added), options.out)
    if "checks" in parts:
        checked = checks.measure(teller("checks"))
        results = _keep(msgspec.structs.replace(results, checks=checked), options.out)
    (options.out / "README.md").write_text(page.render(results), "utf-8")


def _with_builds(results: Results, options: argparse.Namespace) -> Results:
    only = tuple(name for name in options.only.split(",") if name)
    number = options.repeats
    repeats = {scenario: number or usual for scenario, usual in builds.REPEATS.items()}
    measured = builds.measure(only, teller("builds"), repeats, options.cache)
    return msgspec.structs.replace(results, builds=measured)


def _keep(results: Results, out: Path) -> Results:
    out.mkdir(parents=True, exist_ok=True)
    write(results, out / "results.json")
    return results


if __name__ == "__main__":
    main(sys.argv[1:])
