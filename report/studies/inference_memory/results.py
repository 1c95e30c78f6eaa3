"""Results of the runs: peaks beside theory, limits, requests to GPUs' allocators, and tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import add
from typing import NamedTuple, TypeAlias

from report.core.missing import Missing
from report.evidence.cached import cached
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.operations import largest, smallest
from report.studies.inference_memory import rules, theory
from report.studies.inference_memory.runs import History, Run
from report.studies.inference_memory.subject import (
    LEARNED,
    NETWORKS,
    REDUCED,
    SHOWN,
    Call,
    InferencePrecision,
    Limit,
    small,
)
from report.theory.conditions import Layout, conditions_of
from report.theory.fits import Fits, least
from report.theory.reconciliation import Reconciliation, Term

#: A number of a call (of a run).
Of: TypeAlias = Callable[[Run, Call], Quantity]

NO_BYTES = absent("bytes", "B", "no such call was measured")
NO_RATIO = absent("ratio", "1", "no such call was measured")


class Peaks(NamedTuple):
    """The float32 peaks of a CPU that are both predicted and measured."""

    run: Run
    by_call: Mapping[Call, Reconciliation]

    def held_out(self) -> Peaks:
        """Select the networks from which no rule was derived."""
        held_out = {c: r for c, r in self.by_call.items() if c.network not in LEARNED}
        return Peaks(self.run, held_out)

    @property
    def misses(self) -> list[Call]:
        """Calls whose peak is not the predicted one."""
        return [call for call, row in self.by_call.items() if row.residual != 0]

    def compared(self) -> Quantity:
        """Count the peaks."""
        return exact("peaks compared", "1", len(self.by_call), self.run.file)

    def exact(self) -> Quantity:
        """Count the peaks that theory predicts to the byte."""
        met = len(self.by_call) - len(self.misses)
        return exact("peaks predicted to the byte", "1", met, self.run.file)

    def bounds(self) -> Quantity:
        """Count the predictions that are lower bounds, since some operator has no rule."""
        predictions = map(self.run.predicted, self.by_call)
        bounds = sum(not getattr(peak, "complete", True) for peak in predictions)
        return exact("bounds", "1", bounds, self.run.file)

    def rests(self, *, bounded: bool) -> list[Quantity]:
        """Subtract predictions from peaks, either of lower bounds or of all others."""
        rests: list[Quantity] = []
        for call, row in self.by_call.items():
            peak = self.run.predicted(call)
            if isinstance(peak, Missing) or isinstance(row.residual, Missing):
                continue
            if peak.complete != bounded:
                rests.append(exact("residual", "B", row.residual, self.run.file))
        return rests or [NO_BYTES]


@cached
def peaks_of(run: Run) -> Peaks:
    """Compare the float32 peaks of a CPU with theory."""
    return Peaks(run, reconciled(run, "float32"))


def reconciled(run: Run, *precisions: InferencePrecision) -> dict[Call, Reconciliation]:
    """Lead theory to the peak of every call that is both predicted and measured, term by term."""
    rows = {}
    for call in (call for call in run.calls if call.precision in precisions):
        size, predicted = run.fixed("allocated_peak", call.factors), run.predicted(call)
        if isinstance(size, Missing) or isinstance(predicted, Missing):
            continue
        start, *terms = predicted.terms
        words = f"{call.image}-{call.batch}-{call.layout}-{call.precision}"
        rows[call] = Reconciliation(
            f"peak-{run.key}-{call.network}-{words}",
            f"Peak memory of {call.network} on {call.batch:,} images, {call.layout}, "
            f"{call.precision}, {run.label}",
            "B",
            start,
            tuple(terms),
            Term("Measured", size, "most bytes in live blocks", "the allocator's events"),
        )
    return rows


def limits(run: Run, changed: bool = False) -> list[tuple[Limit, Fits]]:
    """Return the outcomes under limits of memory with the predictions of ``--fits``, sorted.

    ``changed`` selects the networks with one allocation changed instead of the others.
    """
    conditions, rows = conditions_of(run.stored.record.environment), []
    for limit in sorted(run.limits, key=_order):
        fits = theory.fits(limit, conditions)
        if not isinstance(fits, Missing) and bool(limit.change) == changed:
            rows.append((limit, fits))
    return rows


def _order(limit: Limit) -> tuple[int, str, int]:
    return NETWORKS.index(limit.network), limit.layout, limit.mebibytes


def frontier_ratios(run: Run, change: str) -> dict[Limit, Quantity]:
    """Divide the largest batch that ran with a change by that without, under each limit."""
    ran = {limit: exact("largest batch", "1", limit.ran, run.file) for limit in run.limits}
    plain = {limit.setting: batch for limit, batch in ran.items() if not limit.change}
    ratios = {}
    for limit, batch in ran.items():
        if limit.change == change and limit.ran and limit.setting in plain:
            ratios[limit] = batch / plain[limit.setting]
    return ratios


def line_batch(run: Run, limit: Limit) -> int | None:
    """Return the batch at which the line through the peaks of 2 and 4 images meets a limit."""
    calls = {batch: small(limit.network, batch, layout=limit.layout) for batch in (2, 4)}
    peaks = {batch: run.fixed("allocated_peak", call.factors) for batch, call in calls.items()}
    known = {batch: peak for batch, peak in peaks.items() if not isinstance(peak, Missing)}
    return rules.line(known, 2, 4, limit.bytes) if len(known) > 1 else None


def beyond(run: Run, changed: bool = False) -> list[Quantity]:
    """Return the predicted bytes above the limit where a larger batch than predicted ran."""
    excess: list[Quantity] = []
    for limit, fits in limits(run, changed):
        if limit.ran > fits.largest and limit.ran in fits.predicted:
            above = least(fits.predicted[limit.ran]) - limit.bytes
            excess.append(exact("excess", "B", above, run.file))
    return excess


class Copies(NamedTuple):
    """Counts of convolutions on a GPU, of their workspaces, and of workspaces of just copies."""

    convolutions: int
    taken: int
    copies: int


class Allocated:
    """Calls on GPUs whose peak is known, with the first run that measured them."""

    def __init__(self, runs: list[Run]) -> None:
        """Set the runs; of a call in several of them the first one's peak is used."""
        self.runs, self.by_call = runs, dict[Call, Run]()
        for run in runs:
            for call in run.chosen(tile=None):
                if not run.peak(call).missing:
                    self.by_call.setdefault(call, run)

    @property
    def file(self) -> str:
        """Return the record of the first run."""
        return self.runs[0].file if self.runs else ""

    def peak(
        self,
        batch: int,
        precision: InferencePrecision = "float32",
        network: str = SHOWN,
        layout: Layout = "contiguous",
    ) -> Quantity:
        """Return the peak of a call (B)."""
        call = small(network, batch, precision, layout)
        return self.by_call[call].peak(call) if call in self.by_call else NO_BYTES

    def saved(self, batch: int) -> Quantity:
        """Return the share of ResNet-20's float32 peak that half precision saves."""
        return named("saved share", 1 - self.ratio(batch, REDUCED))

    def histories(self) -> list[History | Missing]:
        """Return the requests of every call whose operators were captured."""
        calls = [(call, run) for call, run in self.by_call.items() if call.network in NETWORKS]
        return [run.history(call) for call, run in calls]

    def copies(self, halved: bool, layout: Layout) -> Copies:
        """Count in float32 or in half precision, in one layout."""
        total = Copies(0, 0, 0)
        for call, run in self.by_call.items():
            if call.layout == layout and (call.precision != "float32") == halved:
                total = Copies(*map(add, total, run.copies(call)))
        return total

    def ratio(
        self,
        batch: int,
        precision: InferencePrecision = "float32",
        layout: Layout = "contiguous",
        network: str = SHOWN,
    ) -> Quantity:
        """Divide the peak of a call by the peak of the contiguous call in float32."""
        return self.peak(batch, precision, network, layout) / self.peak(batch, network=network)

    def ratios(self, precision: InferencePrecision, layout: Layout) -> list[Quantity]:
        """Divide every peak of a setting by the peak of the contiguous float32 call."""
        ratios: list[Quantity] = []
        for call in self.by_call:
            plain = small(call.network, call.batch)
            if (call.precision, call.layout) == (precision, layout) and plain in self.by_call:
                ratios.append(self.ratio(call.batch, precision, layout, call.network))
        return ratios

    def repeated(self) -> list[Quantity]:
        """Compare each peak that several GPUs measured: the largest less the smallest."""
        differences: list[Quantity] = []
        for call in self.by_call:
            peaks = [run.peak(call) for run in self.runs]
            known = [peak for peak in peaks if not peak.missing]
            if len(known) > 1:
                differences.append(largest(*known) - smallest(*known))
        return differences


def tiled(run: Run, form: str | None = None, tile: int | None = None) -> list[Call]:
    """Return the tiled calls of a run, of one form, or with tiles of one size."""
    calls = []
    for call in run.chosen(network=SHOWN):
        if call.tile and form in (None, call.execution) and tile in (None, call.tile):
            calls.append(call)
    return calls


def over_whole(
    run: Run, of: Of, form: str | None = None, tile: int | None = None
) -> list[Quantity]:
    """Divide a quantity of tiled calls by the same quantity of whole maps."""
    ratios = []
    for call in tiled(run, form, tile):
        whole = replace(call, execution="eager", tile=None)
        ratios.append(of(run, call) / of(run, whole))
    return ratios or [NO_RATIO]
