"""How the rate of a call changes with the batch size, and what its falls coincide with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from figures.canvas import Drawing
from figures.scaling import Points, Scaling
from report.evidence.remembered import known
from report.missing import Missing
from report.paper.declared import Field, table
from report.paper.findings import Figure
from report.paper.plots import every_other, points
from report.paper.policies import compared
from report.paper.tables import Table
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least
from report.quantity.verdicts import Statement, exactly, expect
from report.records.passes import PASSES, Pass
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.subject import BASE

#: A rate below this part of that of the batch size before has fallen.
_FALLEN: Final = 0.8
_X: Final = "Batch size (images)"


@dataclass(frozen=True)
class Fall:
    """The rate of a pass is clearly lower at ``batch`` than at the batch size before it."""

    run: Run
    pass_: Pass
    before: int
    batch: int

    @property
    def ratio(self) -> Quantity:
        """The rate after over that before."""
        return self.run.rate(self.batch, self.pass_) / self.run.rate(self.before, self.pass_)

    @property
    def maps_more(self) -> bool:
        """Whether an image maps more pages than at the batch size before."""
        less, more = (_pages(self.run, b, self.pass_) for b in (self.before, self.batch))
        return less is not None and more is not None and more > less


def _pages(run: Run, batch: int, pass_: Pass) -> float | None:
    found = point(run.series("page_faults", BASE.factors(batch, pass_)) / batch)
    return None if isinstance(found, Missing) else found


def as_by_default(run: Run) -> Run:
    """The run where the C library did what it does by itself."""
    return run.under("default") if compared(run) else run


def falls(runs: Sequence[Run]) -> tuple[Fall, ...]:
    """Where the rate of a CPU falls by a fifth and more, the whole interval below it."""
    every = (
        Fall(as_by_default(run), pass_, *pair)
        for run in runs
        if not run.on_gpu
        for pass_ in PASSES
        for pair in pairwise(run.timed)
    )
    limit = expect(f"< {_FALLEN}")
    return tuple(f for f in every if Statement(f.ratio, limit).judge() == "supported")


def deepest(found: Sequence[Fall]) -> Fall | None:
    """The fall to the smallest part."""
    return min(found, key=lambda each: known(point(each.ratio)), default=None)


def all_map_pages(runs: Sequence[Run]) -> Statement:
    """That no rate falls without pages that are mapped anew."""
    found = falls(runs)
    if not found:
        return Statement(absent("falls", "1", "no rate falls"), exactly(0))
    unexplained = sum(not each.maps_more for each in found)
    return Statement(exact("falls without newly mapped pages", "1", unexplained), exactly(0))


def values(runs: Sequence[Run]) -> dict[str, Quantity]:
    """The deepest fall, and how many there are; nothing where no rate falls."""
    found = falls(runs)
    fall = deepest(found)
    if fall is None:
        return {}
    return {
        "falls": exact("falls of a rate", "1", len(found)),
        "fall_before": exact("batch size before", "1", fall.before, fall.run.file),
        "fall_batch": exact("batch size after", "1", fall.batch, fall.run.file),
        "fall_from": fall.run.rate(fall.before, fall.pass_),
        "fall_to": fall.run.rate(fall.batch, fall.pass_),
    }


def slower_than_twice(run: Run) -> tuple[int, ...]:
    """The batch sizes whose forward call takes longer than one of the next larger batch size."""
    slower = expect("> 1")
    return tuple(
        a
        for a, b in pairwise(run.timed)
        if Statement(run.time(a) / run.time(b), slower).judge() == "supported"
    )


def figure(runs: Sequence[Run]) -> Figure | None:
    """Forward rates of CPUs, ringed where calls map pages, and both passes of a GPU."""
    cpus = [as_by_default(run) for run in runs if run.timed and not run.on_gpu]
    gpus = [run for run in runs if run.timed and run.on_gpu]
    batches = every_other(max((run.timed for run in (*cpus, *gpus)), default=(), key=len))
    panels = []
    if cpus:
        lines = tuple(line for i, run in enumerate(cpus) for line in _cpu_lines(run, i))
        panels.append(_panel("Rate (GFLOP/s)", lines, batches, from_zero=True))
    if gpus:
        lines = tuple(line for run in gpus for line in _gpu_lines(run))
        panels.append(_panel("Rate (TFLOP/s)", lines, batches, from_zero=False))
    files = tuple(run.file for run in (*cpus, *gpus))
    drawing = Drawing(tuple(panels), wide=True, height=2.4)
    return Figure("fig-rates", "", "", drawing, files) if panels else None


def _panel(
    label: str, lines: tuple[Points, ...], batches: Sequence[int], *, from_zero: bool
) -> Scaling:
    return Scaling(
        _X,
        label,
        lines,
        x_ticks=tuple(map(float, batches)),
        y_scale="linear" if from_zero else "log",
        y_from_zero=from_zero,
        direct=True,
    )


def _cpu_lines(run: Run, series: int) -> Iterator[Points]:
    rates = {batch: run.rate(batch) for batch in run.timed}
    yield from points(run.label, rates, "GFLOP/s", series=series, joined=True)
    mapping = {b: rate for b, rate in rates.items() if _pages(run, b, "forward")}
    yield from points("", mapping, "GFLOP/s", series=series, hollow=True)


def _gpu_lines(run: Run) -> Iterator[Points]:
    for series, (pass_, name) in enumerate(zip(PASSES, ("Forward", "With backward"), strict=True)):
        rates = {batch: run.rate(batch, pass_) for batch in run.timed}
        yield from points(name, rates, "TFLOP/s", series=series, joined=True)


def ceilings_table(runs: Sequence[Run]) -> Table:
    """The ceilings of arithmetic beside the best forward rates."""

    def best(run: Run) -> Quantity:
        return at_least(*(run.rate(batch) for batch in run.timed))

    def instrument(run: Run) -> str | Missing:
        return run.winner("matrix_product")

    return table(
        "tbl-ceilings",
        [run for run in runs if run.timed],
        [
            Field("Machine", "", lambda run: run.label),
            Field("Matrix product", "FLOP/s", lambda r: r.peak_rate("matrix_product"), "GFLOP/s"),
            Field("Instrument", "", instrument),
            Field("Best forward rate", "FLOP/s", best, "GFLOP/s"),
        ],
    )
