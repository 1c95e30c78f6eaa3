"""From which size on something pays: another library, a GPU or a second thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from report.missing import Missing
from report.paper.tables import Cell, Column, Table
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity
from report.statistics.estimates import Estimate
from report.studies.backend_speedup.decomposed import (
    Crossing,
    found_crossing,
    known_missing,
    predicted_crossing,
    predicted_time,
)
from report.studies.backend_speedup.measured import NUMPY, Run, Variant, compared_runs
from report.studies.backend_speedup.subject import HIDDEN, Setting

Factor = Literal["hidden", "samples"]

#: Between levels further apart than this factor a crossing is not interpolated.
_FAR: Final = 10


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a library in a run."""

    run: Run
    variant: Variant

    @property
    def name(self) -> str:
        """Library and threads, as a reader would say it."""
        count = self.run.stored.record.environment.threads
        where = "" if self.variant.on_gpu else f", {count} thread{'s' if count > 1 else ''}"
        return f"{self.variant.name}{where}"


@dataclass(frozen=True)
class Comparison:
    """Two sides over one factor; ``settings`` ascend by it."""

    base: Side
    new: Side
    factor: Factor
    settings: tuple[Setting, ...]

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels of the factor."""
        return tuple(getattr(setting, self.factor) for setting in self.settings)

    def ratio(self, setting: Setting) -> Quantity:
        """How many times as fast the new side is."""
        if self.base.run is self.new.run:
            return self.new.run.speedup("time", setting, self.new.variant, self.base.variant)
        return compared_runs(setting, self.new.variant, self.base.run, self.new.run)

    @property
    def ratios(self) -> dict[int, Estimate]:
        """The measured speed-ups by level."""
        ratios = (estimate(self.ratio(setting)) for setting in self.settings)
        found = dict(zip(self.levels, ratios, strict=True))
        return {level: r for level, r in found.items() if isinstance(r, Estimate) and r.confidence}

    @property
    def found(self) -> Crossing | Missing:
        """Where the new side overtakes, as measured."""
        ratios = self.ratios
        if len(ratios) < 2:
            return Missing("fewer than two sizes were measured on both sides")
        return found_crossing(tuple(ratios), tuple(ratios.values()))

    @property
    def predicted(self) -> Crossing | Missing:
        """Where it should, from the smallest case of each side and the rates of its device."""
        times = [predicted_time(s.run, s.variant, self.settings[0]) for s in (self.base, self.new)]
        base, new = times
        if isinstance(base, Missing) or isinstance(new, Missing):
            return base if isinstance(base, Missing) else known_missing(new)
        return predicted_crossing(self._over(base), self._over(new), self.levels)

    def _over(self, time: Callable[[Setting], float]) -> Callable[[int], float]:
        smallest = self.settings[0]
        if self.factor == "hidden":
            return lambda level: time(replace(smallest, hidden=level))
        return lambda level: time(replace(smallest, samples=level))


def comparisons(run: Run, pair: tuple[Run, Run] | None) -> tuple[Comparison, ...]:
    """Every library against NumPy in one run, then more threads against fewer in another two."""
    found = [
        Comparison(Side(run, NUMPY), Side(run, variant), factor, settings)
        for factor, settings in _sweeps(run)
        for variant in run.variants(settings[0])
        if variant != NUMPY
    ]
    if pair:
        few, many = pair
        found += [
            Comparison(Side(few, variant), Side(many, variant), factor, settings)
            for factor, settings in _sweeps(few)
            for variant in few.variants(settings[0])
        ]
    return tuple(found)


def _sweeps(run: Run) -> tuple[tuple[Factor, tuple[Setting, ...]], ...]:
    wide = max((s.hidden for s in run.sizes_of_all_widths()), default=HIDDEN)
    sweeps: tuple[tuple[Factor, tuple[Setting, ...]], ...] = (
        ("hidden", run.widths()),
        ("samples", run.sizes()),
        ("samples", run.sizes(hidden=wide) if wide != HIDDEN else ()),
    )
    return tuple((factor, settings) for factor, settings in sweeps if len(settings) > 1)


def sentence(crossing: Crossing | Missing) -> Cell:
    """A crossing in words, short enough for a cell."""
    if isinstance(crossing, Missing):
        return crossing
    match crossing.course:
        case "crosses" if crossing.at is not None:
            return f"faster from {_place(crossing, crossing.at)} on"
        case "always faster":
            return "faster at every size"
        case "always slower":
            return "slower at every size"
        case "faster where told" | "slower where told":
            return crossing.course
        case _:
            return "not told"


def _place(crossing: Crossing, at: float) -> str:
    """About where lines cross, or between which levels where these are far apart."""
    low, high = crossing.low, crossing.high
    if low and high and high > _FAR * low:
        return f"between {low:,} and {high:,}"
    return f"about {round_to_two(at):,}"


def round_to_two(number: float) -> int:
    """A size to two significant digits: where lines cross is not known better."""
    return int(float(f"{number:.1e}"))


def crossover_table(found: Sequence[Comparison]) -> Table | None:
    """All comparisons with what was predicted of them and what was found."""
    if not found:
        return None
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            one.base.name,
            one.new.name,
            "width" if one.factor == "hidden" else "images",
            f"{one.settings[0].samples:,} images"
            if one.factor == "hidden"
            else f"width {one.settings[0].hidden}",
            sentence(one.predicted),
            sentence(one.found),
        )
        for one in found
    )
    files = dict.fromkeys(side.run.file for one in found for side in (one.base, one.new))
    return Table(
        "tbl-crossovers",
        "From which size on the second side is faster than the first, predicted and found.",
        (
            Column("First"),
            Column("Second"),
            Column("Over"),
            Column("At"),
            Column("Predicted"),
            Column("Found"),
        ),
        rows,
        notes=(
            "Predicted: from the smallest case and the rates of the device. Found: a size tells "
            "where the interval of the ratio excludes 1; where told: not every size does.",
        ),
        sources=tuple(files),
        wide=True,
    )


def agreeing(found: Sequence[Comparison]) -> tuple[int, int]:
    """How many predictions meet what was found, of how many that could be judged.

    A predicted crossing meets a found one if it lies within a factor of 2 of it.  Without a
    crossing the same side must be the faster one wherever that is told.
    """
    judged = [
        (p, f)
        for one in found
        if isinstance(p := one.predicted, Crossing)
        and isinstance(f := one.found, Crossing)
        and f.course != "not told"
    ]
    return sum(_meets(p, f) for p, f in judged), len(judged)


def _meets(predicted: Crossing, found: Crossing) -> bool:
    if predicted.at is not None and found.at is not None:
        return 0.5 <= predicted.at / found.at <= 2
    return predicted.faster is not None and predicted.faster == found.faster
