"""Try theory on the networks of timm: ``python -m experiments.theory.survey COMMAND``.

``networks`` captures every network, ``peaks`` measures a sample, ``predict`` renews what theory
says of it after a rule has changed, and ``page`` writes ``docs/networks-of-timm.md`` from the files
of both.  The first two go on where they were stopped.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from experiments.harness.isolated import ROOT
from experiments.harness.text import period_text
from experiments.theory.survey import networks, page, peaks, published
from report.errors import MeasurementError
from report.records import COUNTS as COUNTS_FILE
from report.records.network_counts import Counts, read_counts, write_counts
from report.theory.workspaces import Layout

DOCS: Final = ROOT / "docs"
COUNTS: Final = ROOT / "data" / COUNTS_FILE
PEAKS: Final = DOCS / "networks-of-timm-peaks.json"
PAGE: Final = DOCS / "networks-of-timm.md"
#: Results between two writings of the file, so that little is lost.
_BETWEEN: Final = 20

Item = TypeVar("Item")


def progress(done: Iterable[Item], total: int, name: Callable[[Item], str]) -> Iterator[Item]:
    """What is done, each with the share and the time left on standard error."""
    began = time.monotonic()
    for number, item in enumerate(done, start=1):
        left = (time.monotonic() - began) / number * (total - number)
        print(f"[{100 * number // total}%, {period_text(left)} left] {name(item)}", file=sys.stderr)
        yield item


def survey_networks(options: argparse.Namespace) -> None:
    """Capture what the file does not hold yet, or what it says was refused."""
    found = {each.network: each for each in read_counts(COUNTS) if not each.refused}
    names = networks.names()
    step = max(1, len(names) // options.some) if options.some else 1
    missing = [name for name in names[::step] if name not in found]
    with ProcessPoolExecutor(options.workers) as pool:
        jobs = as_completed([pool.submit(networks.counts, name) for name in missing])
        results = (job.result() for job in jobs)
        for number, each in enumerate(progress(results, len(missing), _captured)):
            found[each.network] = each
            if number % _BETWEEN == 0:
                write_counts(COUNTS, found.values())
    write_counts(COUNTS, found.values())


def _captured(each: Counts) -> str:
    return f"{each.network}: {each.refused or 'captured'}"


def survey_peaks(options: argparse.Namespace) -> None:
    """Measure what the file does not hold yet; what cannot be measured is said and left out."""
    before = peaks.read_peaks(PEAKS).peaks if PEAKS.exists() else ()
    found = {(each.network, each.layout): each for each in before}
    missing = [pair for pair in peaks.wanted() if pair not in found]
    results = (_measured(*pair) for pair in missing)
    for each in progress(results, len(missing), _text):
        if isinstance(each, peaks.Peak):
            found[each.network, each.layout] = each
            peaks.write_peaks(PEAKS, peaks.here(tuple(found.values())))


def predict_again(options: argparse.Namespace) -> None:
    """Predict by today's rules what the file holds as measured, on the machine that it names."""
    before = peaks.read_peaks(PEAKS)
    results = (peaks.predicted_again(each, before.conditions) for each in before.peaks)
    found = tuple(progress(results, len(before.peaks), _text))
    peaks.write_peaks(PEAKS, msgspec.structs.replace(before, peaks=found))


def _measured(name: str, layout: Layout) -> peaks.Peak | str:
    """A peak, or why there is none."""
    try:
        return peaks.peak(name, layout)
    except (MeasurementError, RuntimeError) as error:
        return f"{name} {layout}: {error}"


def _text(each: peaks.Peak | str) -> str:
    return each if isinstance(each, str) else f"{each.network} {each.layout}: {each.outcome}"


def write_page(options: argparse.Namespace) -> None:
    """The page from what both files hold."""
    tables = published.read_published(sorted(options.published.glob("benchmark-infer-*.csv")))
    rows = [published.compared(each, tables) for each in read_counts(COUNTS)]
    PAGE.write_text(page.page(rows, peaks.read_peaks(PEAKS)), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Do one of the four."""
    made = argparse.ArgumentParser(prog="python -m experiments.theory.survey", description=__doc__)
    of = made.add_subparsers(required=True)
    go = of.add_parser("networks", help="capture every network (an hour of one core)")
    go.add_argument("--some", type=int, metavar="N", help="only about N of them, evenly chosen")
    go.add_argument("--workers", type=int, default=1, help="processes; default: 1")
    go.set_defaults(run=survey_networks)
    go = of.add_parser("peaks", help="predict and measure peaks of a sample (a quarter of an hour)")
    go.set_defaults(run=survey_peaks)
    go = of.add_parser("predict", help="predict anew the peaks that were measured (some minutes)")
    go.set_defaults(run=predict_again)
    go = of.add_parser("page", help="write the page from what was found")
    go.add_argument(
        "--published", type=Path, required=True, metavar="DIR",
        help="the folder results/ of pytorch-image-models",
    )  # fmt: skip
    go.set_defaults(run=write_page)
    options = made.parse_args(arguments)
    options.run(options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
