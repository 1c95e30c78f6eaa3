"""Start of the cliff of several layers after glibc's threshold was set or raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import floor
from typing import Final

from figures.panels import Curve, Points, Scaling
from report.core.missing import Missing
from report.core.records.layers import Layer, at_batch
from report.core.records.record import Level
from report.quantity.expression import Quantity, Statement, absent, exact
from report.studies.conv_scaling.runs import Run
from report.theory import heap

#: Layer in a record → its name for readers.
_NAMES: Final[Mapping[str, str]] = {
    "3x3": "3 × 3",
    "1x1": "1 × 1",
    "5x5": "5 × 5",
    "linear": "Linear",
}
#: A call that maps fewer pages returns no memory: a child that was forked copies some.
FEW: Final = heap.RESERVE // heap.PAGE


@dataclass(frozen=True)
class Start:
    """Start of the cliff of a ``layer`` under one setting.

    ``predicted`` is in images, not rounded, by the trimming threshold (B).  ``mapping`` is the
    share of the processes whose calls map pages, by batch size in ascending order.
    """

    layer: str
    freed: bool
    trimming: int
    predicted: float
    mapping: Mapping[int, float]
    file: str

    @property
    def expected(self) -> int:
        """Smallest whole batch size that should map pages."""
        return floor(self.predicted) + 1

    @property
    def first(self) -> int | None:
        """Smallest batch size at which a process maps pages; None if none does at any."""
        return next((batch for batch, share in self.mapping.items() if share > 0), None)

    @property
    def last(self) -> int:
        """Largest measured batch size below ``first``, or of all."""
        below = [batch for batch in self.mapping if self.first is None or batch < self.first]
        return max(below, default=0)

    def ratio(self) -> Quantity:
        """Divide the batch size at which pages are first mapped by the predicted one."""
        if self.first is None:
            return absent("observed ÷ predicted", "1", "no process mapped pages")
        observed = exact("first batch that maps pages", "1", self.first, self.file)
        return observed / exact("predicted batch", "1", self.expected)


def starts(run: Run) -> tuple[Start, ...]:
    """Return the starts of a run, by layer and threshold."""
    shares: dict[tuple[str, bool, int], dict[int, float]] = {}
    images: dict[str, Layer] = {}
    for case in run.stored.record.cases:
        if case.factors.get("subject") != "cliff" or case.status != "ok":
            continue
        share = _share_that_maps(run, case.factors)
        if share is not None:
            layer, batch = str(case.factors["layer"]), int(case.factors["batch"])
            key = layer, "freed" in case.factors, _trimming(case.factors)
            shares.setdefault(key, {})[batch] = share
            images[layer] = at_batch(case.layers, 1)[0]
    starts = []
    for (layer, freed, trimming), by_batch in sorted(shares.items()):
        predicted = heap.start_of_cliff(images[layer], trimming)
        ordered = dict(sorted(by_batch.items()))
        starts.append(Start(layer, freed, trimming, predicted, ordered, run.file))
    return tuple(starts)


def _share_that_maps(run: Run, factors: Mapping[str, Level]) -> float | None:
    processes = run.under("default").by_process("page_faults", factors)
    if isinstance(processes, Missing):
        return None
    return sum(process.median > FEW for process in processes) / len(processes)


def _trimming(factors: Mapping[str, Level]) -> int:
    """Trimming threshold of a case (B)."""
    if "freed" in factors:
        return heap.raised_trimming(int(factors["freed"]))
    return int(factors["threshold"]) * 2**20


def begun(moved: tuple[Start, ...]) -> list[Start]:
    """Select the starts that were observed."""
    return [start for start in moved if start.first is not None]


def values(moved: tuple[Start, ...]) -> dict[str, Quantity]:
    """Return the numbers of the text."""
    names = ("starts", "begun", "to_the_image", "start_least", "start_most")
    if not moved:
        nothing = absent("starts", "1", "no run moved the start of the cliff")
        return dict.fromkeys(names, nothing)
    expected = [start.expected for start in moved]
    exactly = sum(start.first == start.expected for start in moved)
    numbers = (len(moved), len(begun(moved)), exactly, min(expected), max(expected))
    counts: dict[str, Quantity] = {}
    for name, number in zip(names, numbers, strict=True):
        counts[name] = exact(name.replace("_", " "), "1", number, moved[0].file)
    return counts


def within(moved: tuple[Start, ...], share: float) -> Iterator[Statement]:
    """State that each observed start is the predicted one, up to ``share``."""
    for start in begun(moved):
        yield start.ratio().near(1, within=share)


def removed(moved: tuple[Start, ...]) -> Iterator[Statement]:
    """State that no process maps pages below the predicted start after a tensor was freed."""
    for start in moved:
        for batch, share in start.mapping.items():
            if start.freed and batch < 0.99 * start.predicted:
                name = f"processes that map pages at {batch} images"
                yield exact(name, "1", share, start.file).exactly(0)


def diagonal(moved: tuple[Start, ...]) -> Iterator[Scaling]:
    """Draw the observed starts over the predicted ones; an interval ends at the last without."""
    drawn, seen = [], begun(moved)
    for number, (layer, name) in enumerate(_NAMES.items()):
        own = [start for start in seen if start.layer == layer]
        if own:
            firsts = tuple(float(start.first or 0) for start in own)
            lasts = tuple(float(start.last) for start in own)
            predicted = tuple(start.predicted for start in own)
            drawn.append(Points(name, predicted, firsts, lasts, firsts, number))
    if drawn:
        ends = tuple(choose(s.predicted for s in seen) for choose in (min, max))
        line = Curve("Predicted", ends, ends)
        ticks = (10.0, 100.0, 1_000.0, 10_000.0)
        axes = ("Predicted start (images)", "Observed start (images)")
        yield Scaling(*axes, tuple(drawn), (line,), x_ticks=ticks)
