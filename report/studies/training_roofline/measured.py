"""What one run measured of training steps, over the processes that repeated each case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from report.evidence import runs as any_study
from report.evidence.ceilings import MOMENTS, has_moved
from report.evidence.remembered import remembered
from report.evidence.runs import labels
from report.missing import Missing
from report.quantity.evaluation import estimate, point
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.operations import at_least, at_most, share_of_ceiling
from report.records.record import Case
from report.records.store import Stored
from report.studies.training_roofline.subject import Precision, Step, step_of
from report.theory.networks import Captured, Way, captured
from report.theory.roofline import Roof
from report.theory.work import flops, forward_macs, training_macs

#: Why a rate above its ceiling has no efficiency.
ABOVE: Final = (
    "faster than the measured ceiling: fewer operations ran than theory counts, or an error in one "
    "of the measurements"
)
NO_RECORD: Final = Missing("no run of this experiment is in the data directory")


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the run in the order of the record, also those that failed."""
        cases = self.stored.record.cases
        return tuple(step_of(case) for case in cases if case.factors.get("subject") == "training")

    def chosen(self, **where: object) -> tuple[Step, ...]:
        """The steps with these levels, smaller batches first."""
        found = (s for s in self.steps if all(getattr(s, n) == v for n, v in where.items()))
        return tuple(sorted(found, key=lambda step: (step.image, step.batch)))

    def timed(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Those of ``steps`` that were timed."""
        return tuple(step for step in steps if not self.time(step).missing)

    @property
    def profiles(self) -> tuple[Case, ...]:
        """The steps that were watched layer by layer, and ended well."""
        return tuple(
            case
            for case in self.stored.record.cases
            if case.factors.get("subject") == "profile" and case.status == "ok"
        )

    @property
    def profiling_processes(self) -> tuple[int, ...]:
        """How many processes profiled each of those steps; one in older records."""
        found = (
            [
                r
                for _, each in self.in_each_run(case.factors)
                for r in each.rounds_under(self.policy)
            ]
            for case in self.profiles
        )
        return tuple(sum(bool(r.samples("time")) for r in rounds) or 1 for rounds in found)

    def processes(self, step: Step) -> int:
        """How many processes timed a step."""
        found = self.by_process("time", step.factors)
        return 0 if isinstance(found, Missing) else len(found)

    # ---------------------------------------------------------------------------------- time

    @remembered
    def time(self, step: Step) -> Quantity:
        """Duration of a step (s)."""
        return self.series("time", step.factors)

    def images(self, step: Step) -> Quantity:
        """Images a second: total work over total time, never a mean of rates."""
        return exact(f"batch {step.batch}", "image", step.batch) / self.time(step)

    def work(self, step: Step) -> int | Missing:
        """FLOP of a step by the shapes that ran."""
        layers = self.layers(step.factors)
        return layers if isinstance(layers, Missing) else flops(training_macs(layers))

    def rate(self, step: Step) -> Quantity:
        """Achieved FLOP/s: theoretical work over measured time."""
        work = self.work(step)
        if isinstance(work, Missing):
            return absent("work of a step", "FLOP/s", work.reason)
        return exact("work of a step", "FLOP", work) / self.time(step)

    @remembered
    def speedup(self, base: Step, new: Step) -> Quantity:
        """How many times as many images a second ``new`` makes as ``base``."""
        return self.images(new) / self.images(base)

    @remembered
    def captured(self, network: str, image: int) -> Captured | Missing:
        """The operators of a step; missing where other layers ran than were captured."""
        ran = (
            case.layers
            for case in self.stored.record.cases
            if (case.factors.get("network"), case.factors.get("image")) == (network, image)
        )
        return captured(network, image, Way("training"), like=next(filter(None, ran), ()))

    # ------------------------------------------------------------------------------ ceilings

    @remembered
    def product(self, precision: Precision, moment: str) -> Quantity:
        """FLOP/s of the best arithmetic in a precision, before or after the series.

        In older records that of a case, which is a large matrix product.
        """
        best = self.peak_rate("matrix_product", moment, precision)
        if precision == "float32" or not best.missing:
            return best
        for case in self.stored.record.cases:
            factors = case.factors
            wanted = ("matrix_product", precision, moment)
            found = tuple(factors.get(n) for n in ("subject", "precision", "moment"))
            if found == wanted and case.status == "ok" and case.samples("time"):
                work = exact("work of the matrix product", "FLOP", flops(forward_macs(case.layers)))
                return work / self.series("time", factors)
        reason = f"no matrix product in {precision} was measured on {self.label}"
        return absent(f"matrix product in {precision}", "FLOP/s", reason)

    def peak(self, precision: Precision) -> Quantity:
        """The better of both moments' matrix products (FLOP/s)."""
        found = [self.product(precision, moment) for moment in MOMENTS]
        return at_least(*([each for each in found if not each.missing] or found))

    def copy(self) -> Quantity:
        """The better of both copies (B/s)."""
        return self.peak_rate("copy")

    @remembered
    def slower_copy(self) -> Quantity:
        """The worse of both copies (B/s)."""
        found = [self.peak_rate("copy", moment) for moment in MOMENTS]
        return at_most(*([copy for copy in found if not copy.missing] or found))

    @remembered
    def roof(self, precision: Precision = "float32") -> Roof | Missing:
        """The measured roof for a precision, to draw: matrix product and copy."""
        peak, bandwidth = estimate(self.peak(precision)), estimate(self.copy())
        if isinstance(peak, Missing):
            return peak
        return bandwidth if isinstance(bandwidth, Missing) else Roof(peak, bandwidth)

    def copy_moved(self) -> bool:
        """Whether the copy is known to have changed too far from before to after the series."""
        before, after = (named(f"copy {m}", self.peak_rate("copy", m)) for m in MOMENTS)
        change = point(after / before - 1)
        return isinstance(change, float) and has_moved(change)

    @remembered
    def efficiency(self, step: Step) -> Quantity:
        """Achieved rate over the measured matrix product in the step's precision."""
        return share_of_ceiling(self.rate(step) / self.peak(step.precision), ABOVE)


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first."""
    return tuple(map(Run, records, labels(records)))
