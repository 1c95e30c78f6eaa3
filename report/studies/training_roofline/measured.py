"""What one run measured of training steps, over the processes that repeated each case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from report.evidence import runs as any_study
from report.evidence.runs import labels
from report.missing import Missing
from report.records.layers import Layer
from report.records.record import Case, Sample
from report.records.store import Stored
from report.statistics.estimates import (
    CONFIDENCE,
    Estimate,
    bonferroni,
    median_interval,
    rate,
    rate_over,
)
from report.studies.training_roofline.subject import Precision, Step, step_of
from report.theory.architectures import ARCHITECTURES
from report.theory.rescale_shapes import at_image
from report.theory.roofline import Roof, at_batch
from report.theory.work import flops, forward_macs, training_macs

#: Two intervals that hold together with the usual confidence.
EACH: Final = bonferroni(CONFIDENCE, 2)
#: A ceiling that changed by more than this between both ends of a run marks what was measured.
MOVED: Final = 0.1
NO_RECORD: Final = Missing("no run of this experiment is in the data directory")


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def _processes(self) -> dict[Step, tuple[int, ...]]:
        found: dict[Step, list[int]] = {}
        for case in self.stored.record.cases:
            if case.factors.get("subject") == "training":
                found.setdefault(step_of(case), []).append(int(case.factors["process"]))
        return {step: tuple(sorted(numbers)) for step, numbers in found.items()}

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the run in the order of the record, also those that failed."""
        return tuple(self._processes)

    def chosen(self, **where: object) -> tuple[Step, ...]:
        """The steps with these levels, smaller batches first."""
        found = (s for s in self.steps if all(getattr(s, n) == v for n, v in where.items()))
        return tuple(sorted(found, key=lambda step: (step.image, step.batch)))

    def timed(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Those of ``steps`` that were timed."""
        return tuple(step for step in steps if not isinstance(self.time(step), Missing))

    @property
    def profiles(self) -> tuple[Case, ...]:
        """The steps that were watched layer by layer, and ended well."""
        return tuple(
            case
            for case in self.stored.record.cases
            if case.factors.get("subject") == "profile" and case.status == "ok"
        )

    def processes(self, step: Step) -> int:
        """How many processes measured a step."""
        found = self.by_process(step)
        return 0 if isinstance(found, Missing) else len(found)

    def by_process(
        self, step: Step, quantity: str = "time"
    ) -> tuple[tuple[Sample, ...], ...] | Missing:
        """The samples of each process that ended well, or why there are none."""
        numbers = self._processes.get(step, ())
        found = [self.samples(quantity, step.factors(number)) for number in numbers]
        there = tuple(samples for samples in found if not isinstance(samples, Missing))
        if there:
            return there
        reasons = (samples for samples in found if isinstance(samples, Missing))
        return next(reasons, Missing(f"not part of the run on {self.label}"))

    def first(self, quantity: str, step: Step) -> int | Missing:
        """A quantity that is fixed, from the first process that recorded it."""
        found = self.by_process(step, quantity)
        if isinstance(found, Missing):
            return found
        value = {sample for samples in found for sample in samples}
        if len(value) > 1:
            name = quantity.replace("_", " ")
            return Missing(f"{name} differed between repetitions on {self.label}")
        return int(next(iter(value)))

    def in_order(self, quantity: str, step: Step) -> tuple[Sample, ...] | Missing:
        """A quantity in order, of the first process that recorded it."""
        found = self.by_process(step, quantity)
        return found if isinstance(found, Missing) else found[0]

    def layers(self, step: Step) -> tuple[Layer, ...] | Missing:  # type: ignore[override]
        """The layers of a step in float32, as the record holds them."""
        for number in self._processes.get(step, ()):
            layers = super().layers(step.factors(number))
            if not isinstance(layers, Missing):
                return layers
        return Missing(f"no process ended well on {self.label}")

    # ---------------------------------------------------------------------------------- time

    def time(self, step: Step, confidence: float = CONFIDENCE) -> Estimate | Missing:
        """Duration of a step in s: see ``over_processes``."""
        found = self.by_process(step)
        return found if isinstance(found, Missing) else over_processes(found, confidence)

    def images(self, step: Step, confidence: float = CONFIDENCE) -> Estimate | Missing:
        """Images a second: total work over total time, never a mean of rates."""
        time = self.time(step, confidence)
        return time if isinstance(time, Missing) else per_time(step.batch, time)

    def work(self, step: Step) -> int | Missing:
        """FLOP of a step by the shapes that ran."""
        layers = self.layers(step)
        return layers if isinstance(layers, Missing) else flops(training_macs(layers))

    def rate(self, step: Step, confidence: float = CONFIDENCE) -> Estimate | Missing:
        """Achieved FLOP/s: theoretical work over measured time."""
        work, time = self.work(step), self.time(step, confidence)
        if isinstance(work, Missing):
            return work
        return time if isinstance(time, Missing) else per_time(work, time)

    def speedup(self, base: Step, new: Step) -> Estimate | Missing:
        """How many times as many images a second ``new`` makes as ``base``."""
        slow, fast = self.images(base, EACH), self.images(new, EACH)
        if isinstance(slow, Missing):
            return slow
        return fast if isinstance(fast, Missing) else rate_over(fast, slow)

    # ------------------------------------------------------------------------------ ceilings

    def product(
        self, precision: Precision, moment: str, confidence: float = CONFIDENCE
    ) -> Estimate | Missing:
        """FLOP/s of a large matrix product in a precision, before or after the series."""
        if precision == "float32":
            return self.ceiling_at("matrix_product", moment, confidence)
        for case in self.stored.record.cases:
            factors = case.factors
            wanted = ("matrix_product", precision, moment)
            found = tuple(factors.get(n) for n in ("subject", "precision", "moment"))
            if found == wanted and case.status == "ok" and case.samples("time"):
                work = flops(forward_macs(case.layers))
                return rate(work, case.samples("time"), confidence)
        return Missing(f"no matrix product in {precision} was measured on {self.label}")

    def peak(self, precision: Precision, confidence: float = CONFIDENCE) -> Estimate | Missing:
        """The better of both moments' matrix products."""
        found = [self.product(precision, moment, confidence) for moment in ("before", "after")]
        there = [estimate for estimate in found if isinstance(estimate, Estimate)]
        if there:
            return max(there, key=lambda estimate: estimate.value)
        return next(item for item in found if isinstance(item, Missing))

    def roof(self, precision: Precision = "float32") -> Roof | Missing:
        """The measured roof for a precision: matrix product and copy."""
        peak, bandwidth = self.peak(precision, EACH), self.ceiling("copy", EACH)
        if isinstance(peak, Missing):
            return peak
        return bandwidth if isinstance(bandwidth, Missing) else Roof(peak, bandwidth)

    def drift(self, precision: Precision = "float32") -> float | Missing:
        """The change of the matrix product from before to after the series, relative."""
        before, after = (self.product(precision, moment) for moment in ("before", "after"))
        return _change(before, after)

    def copy_drift(self) -> float | Missing:
        """The same of the copy."""
        before, after = (self.ceiling_at("copy", moment) for moment in ("before", "after"))
        return _change(before, after)

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """The precisions of the run's steps, in the order of the record."""
        return tuple(dict.fromkeys(step.precision for step in self.steps))

    def product_moved(self) -> bool:
        """Whether a matrix product, by which efficiencies are formed, moved too far."""
        return any(_too_far(self.drift(precision)) for precision in self.precisions)

    def copy_moved(self) -> bool:
        """Whether the copy, by which slope and ridge of the roof are drawn, moved too far."""
        return _too_far(self.copy_drift())

    def slower_copy(self) -> Estimate | Missing:
        """The worse of both copies, at the level of two intervals that hold together."""
        found = [self.ceiling_at("copy", moment, EACH) for moment in ("before", "after")]
        there = [copy for copy in found if isinstance(copy, Estimate)]
        if there:
            return min(there, key=lambda copy: copy.value)
        return next(copy for copy in found if isinstance(copy, Missing))

    def efficiency(self, step: Step) -> Estimate | Missing:
        """Achieved rate over the measured matrix product in the step's precision.

        Above 1 the ceiling or the time is wrong, and the efficiency is missing.
        """
        achieved, peak = self.rate(step, EACH), self.peak(step.precision, EACH)
        if isinstance(achieved, Missing):
            return achieved
        if isinstance(peak, Missing):
            return peak
        return possible(rate_over(achieved, peak))


def possible(share: Estimate) -> Estimate | Missing:
    """A share of a ceiling, or why it cannot be one; the end of its interval is cut at 1."""
    if share.value > 1:
        return Missing("faster than the measured ceiling: an error in one of the measurements")
    return replace(share, high=min(share.high, 1.0))


def product_mark(run: Run) -> tuple[str, ...]:
    """A note for what rests on the matrix product, if that moved too far."""
    if not run.product_moved():
        return ()
    return (f"The matrix product moved by more than {100 * MOVED:.0f} % while this was measured.",)


def copy_mark(run: Run) -> tuple[str, ...]:
    """A note for what rests on the copy, if that moved too far."""
    if not run.copy_moved():
        return ()
    return (
        f"The copy moved by more than {100 * MOVED:.0f} % while this was measured; the better of "
        "both is the ceiling here.",
    )


def over_processes(found: Sequence[Sequence[Sample]], confidence: float = CONFIDENCE) -> Estimate:
    """The median of the processes' medians, with an interval that holds all of these.

    Steps within a process are not independent of each other, processes are; but three of them make
    no interval of their own.  The interval therefore runs from the lowest to the highest end of the
    processes' intervals, each at the level at which all hold together (Bonferroni).
    """
    each = bonferroni(confidence, len(found))
    medians = [median_interval(samples, each) for samples in found]
    return Estimate(
        median_interval([m.value for m in medians]).value,
        min(m.low for m in medians),
        max(m.high for m in medians),
        sum(m.n for m in medians),
        max(0.0, round(1 - sum(1 - m.confidence for m in medians), 12)),
    )


def per_time(work: float, time: Estimate) -> Estimate:
    """Work over an estimated duration: the ends change places."""
    return Estimate(work / time.value, work / time.high, work / time.low, time.n, time.confidence)


def _too_far(change: float | Missing) -> bool:
    """Whether a ceiling changed by more than ``MOVED``, or cannot be compared."""
    return isinstance(change, Missing) or abs(change) > MOVED


def _change(before: Estimate | Missing, after: Estimate | Missing) -> float | Missing:
    if isinstance(before, Missing):
        return before
    return after if isinstance(after, Missing) else after.value / before.value - 1


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first."""
    return tuple(map(Run, records, labels(records)))


def primary_run(all_runs: Sequence[Run]) -> Run | None:
    """The run that the prose speaks of: the newest timed on a CPU with the most threads, or any."""
    timed = [run for run in all_runs if run.timed(run.steps)]
    on_cpu = [run for run in timed if not run.on_gpu]
    most = max(on_cpu, key=lambda run: run.stored.record.environment.threads, default=None)
    return most or next(iter((*timed, *all_runs)), None)


def network_layers(all_runs: Sequence[Run], network: str, image: int) -> tuple[Layer, ...]:
    """The layers of a network on one image of a size.

    Shapes that ran on images of this size come first, then others, carried over to it; where no
    record holds the network, its shapes are those of its publication.
    """
    ran = [
        case.layers
        for run in all_runs
        for case in run.stored.record.cases
        if case.factors.get("network") == network and case.status == "ok" and case.layers
    ]
    wanted = (layers for layers in ran if layers[0].input_shape[2:] == (image, image))
    carried = (at_image(layers, image) for layers in ran)
    found = next(wanted, None) or next(carried, None)
    return at_batch(found or ARCHITECTURES[network](1, image), 1)
