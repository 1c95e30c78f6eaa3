"""What one run measured: the layer in its dimensions, the traces, the trainings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from report.evidence import runs as any_study
from report.evidence.runs import labels
from report.missing import Missing
from report.quantity.evaluation import level
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import level_of_largest
from report.records.passes import Pass
from report.records.record import Sample
from report.records.store import Stored
from report.studies.conv_profiling.subject import BASE, Dimensions, dimensions_of


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def dimensions(self) -> tuple[Dimensions, ...]:
        """The layer's dimensions, those of the example first, then in the order of the record."""
        cases = self.stored.record.cases
        found = (dimensions_of(case) for case in cases if case.factors.get("subject") == "layer")
        return tuple(sorted(dict.fromkeys(found), key=lambda dimensions: dimensions != BASE))

    def batches(self, dimensions: Dimensions = BASE) -> tuple[int, ...]:
        """The batch sizes of a layer in ascending order, also of cases that failed."""
        where = {n: f for n, f in dimensions.factors(1, "forward").items() if n not in _CALL}
        return tuple(map(int, self.levels("batch", **where)))

    def raw(
        self, quantity: str, batch: int, pass_: Pass, dimensions: Dimensions = BASE
    ) -> tuple[Sample, ...] | Missing:
        """The raw samples of a quantity, or why there are none."""
        return self.samples(quantity, dimensions.factors(batch, pass_))

    def rate(self, batch: int) -> Quantity:
        """Achieved rate (FLOP/s) of a forward call of the example's layer."""
        work = exact("work", "FLOP", BASE.operations(batch))
        return work / self.series("time", BASE.factors(batch, "forward"))

    def held(self, batch: int) -> int | Missing:
        """Bytes that the forward call of the example's layer left allocated."""
        factors = BASE.factors(batch, "forward")
        return self.grown("allocated_after", factors, since="allocated_before")

    def peak(self, batch: int, dimensions: Dimensions = BASE) -> int | Missing:
        """Most bytes allocated during the forward call beyond those allocated before it."""
        factors = dimensions.factors(batch, "forward")
        return self.grown("allocated_peak", factors, since="allocated_before")


_CALL: Final = frozenset({"batch", "pass"})


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first."""
    return tuple(map(Run, records, labels(records)))


def best_rate(run: Run) -> Quantity:
    """The rate at the batch size with the highest one."""
    rates = {b: rate for b in run.batches() if not (rate := run.rate(b)).missing}
    if not rates:
        return absent("rate", "FLOP/s", f"no forward call was timed on {run.label}")
    return rates[level(level_of_largest(rates, "1"))]


def best_share(run: Run) -> Quantity:
    """The same over the measured ceiling of arithmetic."""
    return best_rate(run) / run.peak_rate("matrix_product")
