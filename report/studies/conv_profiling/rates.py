"""How the rate of a call changes with the batch size, and what its falls coincide with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from figures.canvas import Drawing
from figures.scaling import Points, Scaling
from report.evidence.ceilings import has_moved
from report.evidence.remembered import known
from report.missing import Missing
from report.paper.declared import Content, Field, table
from report.paper.findings import Figure
from report.paper.plots import every_other, points
from report.paper.policies import compared
from report.paper.tables import Table
from report.quantity.evaluation import estimate, level, point
from report.quantity.expression import Quantity, absent, exact, recorded
from report.quantity.operations import level_of_largest
from report.quantity.verdicts import Statement, exactly, expect
from report.records.passes import PASSES, SHORT_NAMES, Pass
from report.statistics.estimates import Estimate
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


def by_default(runs: Sequence[Run]) -> list[Run]:
    """The timed CPUs where the C library did what it does by itself.

    They are those whose records name its memory policy, or all where none does.
    """
    cpus = [run for run in runs if run.timed and not run.on_gpu]
    return [run.under("default") for run in cpus if compared(run)] or cpus


def falls(cpus: Sequence[Run]) -> tuple[Fall, ...]:
    """Where the rate of a CPU falls by a fifth and more, the whole interval below it."""
    every = (
        Fall(run, pass_, *pair) for run in cpus for pass_ in PASSES for pair in pairwise(run.timed)
    )
    limit = expect(f"< {_FALLEN}")
    return tuple(f for f in every if Statement(f.ratio, limit).judge() == "supported")


def deepest(found: Sequence[Fall]) -> Fall | None:
    """The fall to the smallest part."""
    return min(found, key=lambda each: known(point(each.ratio)), default=None)


def all_map_pages(runs: Sequence[Run]) -> Statement:
    """That no rate falls without pages that are mapped anew."""
    found = falls(by_default(runs))
    if not found:
        return Statement(absent("falls", "1", "no rate falls"), exactly(0))
    unexplained = sum(not each.maps_more for each in found)
    return Statement(exact("falls without newly mapped pages", "1", unexplained), exactly(0))


def values(runs: Sequence[Run]) -> dict[str, Quantity]:
    """The deepest fall, how many there are and with memory kept; nothing where no rate falls."""
    found = falls(by_default(runs))
    fall = deepest(found)
    if fall is None:
        return {}
    with_memory_kept = falls([run for run in runs if compared(run)])
    return {
        "falls": exact("falls of a rate", "1", len(found)),
        "falls_kept": exact("falls with memory kept", "1", len(with_memory_kept)),
        "fall_before": exact("batch size before", "1", fall.before, fall.run.file),
        "fall_batch": exact("batch size after", "1", fall.batch, fall.run.file),
        "fall_from": fall.run.rate(fall.before, fall.pass_),
        "fall_to": fall.run.rate(fall.batch, fall.pass_),
    }


def of_policies(run: Run) -> dict[str, Quantity]:
    """A fall of the rate with memory kept, and of pages that grow with the backward pass."""
    return {**_kept(run), **_back_pages(run)}


def _kept(run: Run) -> dict[str, Quantity]:
    """The best rate and the lowest at a larger batch size, if their intervals are apart."""
    best = best_batch(run)
    later = {b: found for b in run.timed if b > best if (found := _estimate(run, b)) is not None}
    lowest = min(later, key=lambda b: later[b].value, default=None)
    first = _estimate(run, best)
    if lowest is None or first is None or later[lowest].high >= first.low:
        return {}
    return {
        "kept_best": run.rate(best),
        "kept_best_batch": exact("batch size", "1", best, run.file),
        "kept_fallen": run.rate(lowest),
        "kept_fallen_batch": exact("batch size", "1", lowest, run.file),
    }


def _estimate(run: Run, batch: int) -> Estimate | None:
    found = estimate(run.rate(batch))
    return found if isinstance(found, Estimate) else None


def _back_pages(run: Run) -> dict[str, Quantity]:
    """The pages of an image with its backward pass, where they double from one batch size on.

    Nothing where they do not, or where they are not fewer before than without that pass.
    """
    seen = run.under("default")
    pages = {b: n for b in run.timed if (n := _pages(seen, b, "forward_backward"))}
    steps = list(pairwise(pages.items()))
    if not steps:
        return {}
    (before, fewer), (batch, more) = max(steps, key=lambda step: step[1][1] / step[0][1])
    forward = _pages(seen, before, "forward")
    if more <= 2 * fewer or forward is None or fewer >= forward:
        return {}
    return {
        "back_before": exact("batch size before", "1", before, run.file),
        "back_pages_before": exact("pages of an image before", "1", fewer, run.file),
        "back_batch": exact("batch size", "1", batch, run.file),
        "back_pages": exact("pages of an image", "1", more, run.file),
    }


def slower_than_twice(run: Run) -> tuple[int, ...]:
    """The batch sizes whose forward call takes longer than one of the next larger batch size.

    By intervals of what was measured, also where one process decides no claim.
    """
    times = {batch: estimate(run.time(batch)) for batch in run.timed}
    known = {b: found for b, found in times.items() if isinstance(found, Estimate)}
    return tuple(a for a, b in pairwise(known) if known[a].low > known[b].high)


def figure(runs: Sequence[Run]) -> Figure | None:
    """Rates of CPUs over the pages that an image maps, forward (left) and with backward (right)."""
    cpus = by_default(runs)
    if not cpus:
        return None
    batches = every_other(max((run.timed for run in cpus), key=len))
    panels = (
        _panel("Rate (GFLOP/s)", _unnamed(_rates(cpus, "forward")), batches, "Forward"),
        _panel("Rate (GFLOP/s)", _rates(cpus, "forward_backward"), batches, "Forward and backward"),
        *(_panel("Pages mapped for an image", _mapped(cpus, p), batches) for p in PASSES),
    )
    files = tuple(run.file for run in cpus)
    return Figure("fig-rates", "", "", Drawing(panels, wide=True, height=3.4, rows=2), files)


def _panel(
    label: str, lines: tuple[Points, ...], batches: Sequence[int], title: str = ""
) -> Scaling:
    return Scaling(
        _X if label.startswith("Pages") else "",
        label,
        lines,
        x_ticks=tuple(map(float, batches)),
        y_scale="linear",
        y_from_zero=True,
        direct=bool(title),
        title=title,
    )


def _rates(cpus: Sequence[Run], pass_: Pass) -> tuple[Points, ...]:
    return tuple(
        line
        for series, run in enumerate(cpus)
        for line in points(
            run.label,
            {batch: run.rate(batch, pass_) for batch in run.timed},
            "GFLOP/s",
            series=series,
            joined=True,
        )
    )


def _unnamed(lines: tuple[Points, ...]) -> tuple[Points, ...]:
    """Lines whose names stand in the panel beside."""
    return tuple(replace(line, label="") for line in lines)


def _mapped(cpus: Sequence[Run], pass_: Pass) -> tuple[Points, ...]:
    """Pages of an image by batch size, in the colours of the rates above."""
    found = []
    for series, run in enumerate(cpus):
        pages = {b: n for b in run.timed if (n := _pages(run, b, pass_)) is not None}
        known_at = tuple(map(float, pages))
        found.append(Points("", known_at, tuple(pages.values()), series=series, joined=True))
    return tuple(each for each in found if each.x)


def best_batch(run: Run) -> int:
    """The batch size with the highest forward rate; the run timed one at least."""
    return level(level_of_largest({batch: run.rate(batch) for batch in run.timed}, "1"))


def best_rate(run: Run) -> Quantity:
    """The highest forward rate."""
    if not run.timed:
        return absent("rate", "FLOP/s", f"no forward call was timed on {run.label}")
    return run.rate(best_batch(run))


def ceiling(run: Run, moment: str) -> Quantity:
    """The best rate of arithmetic before or after the series: one fact of the record."""
    found = point(run.peak_rate("matrix_product", moment))
    return recorded(f"best rate {moment} the series", "FLOP/s", found, run.file)


def drifted(run: Run) -> bool:
    """Whether the best rate of arithmetic is known to have moved between both ends of the run."""
    return has_moved(point(ceiling(run, "after") / ceiling(run, "before") - 1))


def ceilings_table(runs: Sequence[Run]) -> Table:
    """The ceilings of arithmetic before and after the series, beside the best forward rates."""

    return table(
        "tbl-ceilings",
        [run for run in runs if run.timed],
        [
            Field("Machine", "", lambda run: run.label),
            Field("Ceiling before", "FLOP/s", lambda r: ceiling(r, "before"), "GFLOP/s"),
            Field("Ceiling after", "FLOP/s", lambda r: ceiling(r, "after"), "GFLOP/s"),
            Field("Best forward rate", "FLOP/s", best_rate, "GFLOP/s"),
        ],
    )


def pages_table(runs: Sequence[Run]) -> Table:
    """Pages that an image maps anew on each CPU, by batch size and pass."""
    cpus = by_default(runs)
    batches = max((run.timed for run in cpus), key=len)

    def pages(run: Run, pass_: Pass) -> Field[int]:
        nothing = Missing(f"not counted on {run.label}")

        def get(batch: int) -> Content:
            found = _pages(run, batch, pass_)
            return nothing if found is None else round(found)

        return Field(f"{run.label}, {SHORT_NAMES[pass_]}", "1", get)

    batch: Field[int] = Field("Batch", "1", lambda size: size)
    fields = [batch, *(pages(run, pass_) for run in cpus for pass_ in PASSES)]
    return table("tbl-pages", batches, fields, sources=tuple(run.file for run in cpus), wide=True)
