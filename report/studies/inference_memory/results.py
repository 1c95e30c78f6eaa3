"""What follows from the runs: peaks that theory explains, limits, requests of GPUs, and tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from report.core.missing import Missing
from report.evidence.cached import cached
from report.quantity.expression import Quantity, absent, exact, named
from report.studies.inference_memory import theory
from report.studies.inference_memory.runs import History, Run
from report.studies.inference_memory.subject import (
    LEARNED,
    REDUCED,
    SHOWN,
    Call,
    Limit,
    Precision,
    small,
)
from report.theory.conditions import Layout, conditions_of
from report.theory.fits import Fits, least
from report.theory.network import Theory
from report.theory.reconciliation import Reconciliation, Term

NO_BYTES = absent("bytes", "B", "no such call was measured")
NO_RATIO = absent("ratio", "1", "no such call was measured")


class Peaks(NamedTuple):
    """The float32 peaks of a CPU that are both predicted and measured."""

    run: Run
    found: Mapping[Call, Reconciliation]

    def of(self, *networks: str) -> Peaks:
        """Those of some networks."""
        return Peaks(self.run, {c: r for c, r in self.found.items() if c.network in networks})

    @property
    def held_out(self) -> Peaks:
        """Those of networks on which no rule was found."""
        return self.of(*{call.network for call in self.found} - {*LEARNED})

    @property
    def misses(self) -> list[Call]:
        """The calls whose prediction is not met."""
        return [call for call, r in self.found.items() if r.residual != 0]

    @property
    def compared(self) -> Quantity:
        """How many there are."""
        return exact("peaks compared", "1", len(self.found), self.run.file)

    @property
    def exact(self) -> Quantity:
        """How many theory predicts to the byte."""
        met = len(self.found) - len(self.misses)
        return exact("peaks predicted to the byte", "1", met, self.run.file)

    @property
    def bounds(self) -> Quantity:
        """How many predictions are bounds, as some operator has no rule."""
        found = sum(not getattr(self.run.predicted(call), "complete", True) for call in self.found)
        return exact("bounds", "1", found, self.run.file)

    def rests(self, *, bounded: bool) -> list[Quantity]:
        """What a prediction lacks: of bounds, where a layer has no rule, or of all others."""
        found: list[Quantity] = []
        for call, each in self.found.items():
            at = self.run.predicted(call)
            if isinstance(at, Missing) or isinstance(each.residual, Missing):
                continue
            if at.complete != bounded:
                found.append(exact("residual", "B", each.residual, self.run.file))
        return found or [NO_BYTES]


@cached
def peaks_of(run: Run) -> Peaks:
    """The float32 peaks of a CPU."""
    return Peaks(run, reconciled(run, "float32"))


def reconciled(run: Run, *precisions: Precision) -> dict[Call, Reconciliation]:
    """Theory led to the peak of calls that is both predicted and measured, term by term."""
    found = {}
    for call in (call for call in run.calls if call.precision in precisions):
        size, predicted = run.fixed("allocated_peak", call.factors), run.predicted(call)
        if isinstance(size, Missing) or isinstance(predicted, Missing):
            continue
        start, *terms = predicted.terms
        words = f"{call.image}-{call.batch}-{call.layout}-{call.precision}"
        found[call] = Reconciliation(
            f"peak-{run.key}-{call.network}-{words}",
            f"Peak memory of {call.network} on {call.batch:,} images, {call.layout}, "
            f"{call.precision}, {run.label}",
            "B",
            start,
            tuple(terms),
            Term("Measured", size, "most bytes in live blocks", "the allocator's events"),
        )
    return found


def limits(run: Run) -> list[tuple[Limit, Fits[Theory]]]:
    """What ran under limits of memory, with what ``--fits`` predicts."""
    conditions = conditions_of(run.stored.record.environment)
    found = ((limit, theory.fits(limit, conditions)) for limit in run.limits)
    return [(limit, fits) for limit, fits in found if not isinstance(fits, Missing)]


def beyond(run: Run) -> list[Quantity]:
    """By how much what ran exceeds the limit by theory, where more ran than was predicted."""
    return [
        exact("excess", "B", least(fits.predicted[limit.ran]) - limit.bytes, run.file)
        for limit, fits in limits(run)
        if limit.ran > fits.largest and limit.ran in fits.predicted
    ]


class Copies(NamedTuple):
    """Convolutions on a GPU, those with a workspace, and those whose workspace is just copies."""

    calls: int
    convolutions: int
    taken: int
    copies: int


class Allocated:
    """The calls on GPUs whose peak is known, each with the first run that measured it."""

    def __init__(self, runs: list[Run]) -> None:
        """``runs`` are those of GPUs, the first one's peaks before those of others."""
        self.runs, self.by_call = runs, dict[Call, Run]()
        for run in runs:
            for call in run.chosen(tile=None):
                if not run.peak(call).missing:
                    self.by_call.setdefault(call, run)

    @property
    def file(self) -> str:
        """The record of the first run."""
        return self.runs[0].file if self.runs else ""

    def peak(
        self,
        batch: int,
        precision: Precision = "float32",
        network: str = SHOWN,
        layout: Layout = "contiguous",
    ) -> Quantity:
        """The peak of a call."""
        call = small(network, batch, precision, layout)
        return self.by_call[call].peak(call) if call in self.by_call else NO_BYTES

    def history(self, batch: int, precision: Precision = "float32") -> History | Missing:
        """What the allocator was asked for in a call of ResNet-20."""
        call = small(SHOWN, batch, precision)
        if call not in self.by_call:
            return Missing("no such call was measured")
        return self.by_call[call].history(call)

    def saved(self, batch: int, precision: Precision = REDUCED, network: str = SHOWN) -> Quantity:
        """The share of the float32 peak that reduced precision saves."""
        new, old = (self.peak(batch, p, network) for p in (precision, "float32"))
        return named("saved share", 1 - new / old)

    def histories(self) -> list[History | Missing]:
        """What was asked for in every call."""
        return [run.history(call) for call, run in self.by_call.items()]

    def copies(self, halved: bool, layout: Layout, *networks: str) -> Copies:
        """Of calls in float32 or in half precision, in one layout, of some networks or of all."""
        found = [
            (1, *run.copies(call))
            for call, run in self.by_call.items()
            if call.layout == layout and (call.precision != "float32") == halved
            if not networks or call.network in networks
        ]
        return Copies(*(sum(column) for column in zip((0, 0, 0, 0), *found, strict=True)))

    @property
    def split(self) -> list[tuple[int, int]]:
        """Of half precision where maps outgrow an index: the workspace, and that of a part."""
        found = (run.split(c) for c, run in self.by_call.items() if c.precision != "float32")
        return list(filter(None, found))


def tiled(run: Run, form: str | None = None, tile: int | None = None) -> list[Call]:
    """The tiled calls of a run, of one form, or with tiles of one size."""
    return [
        call
        for call in run.chosen(network=SHOWN)
        if call.tile and form in (None, call.execution) and tile in (None, call.tile)
    ]


def over_whole(
    run: Run, of: Callable[[Run, Call], Quantity], form: str | None = None, tile: int | None = None
) -> list[Quantity]:
    """A number of tiled calls over that of whole maps."""
    calls = [(call, replace(call, execution="eager", tile=None)) for call in tiled(run, form, tile)]
    return [of(run, call) / of(run, whole) for call, whole in calls] or [NO_RATIO]
