"""One record of the study, and its comparisons: trials of a tip, timed in pairs of processes.

Words of the paper:
- tip: advice to speed up a call, such as bfloat16;
- control: a comparison that changes nothing;
- trial: calls of a network with and without a tip, while freed memory is returned or kept;
- memory returned: the C library returns freed memory to the system, so the next call maps pages;
- gain: speed-up by a tip, which is the time without the tip divided by the time with it;
- equation: prediction of gains with memory kept from times and page faults with memory returned;
- price of a page: time to map a page.
"""

from dataclasses import dataclass
from functools import cached_property

from report.core.missing import Missing
from report.core.records.quantities import quantity_of
from report.core.records.record import Case
from report.evidence import runs as any_study
from report.evidence.cached import cached
from report.instruments.comparison import ComparisonVerdict, comparison_verdict
from report.quantity.evaluation import point_estimate
from report.quantity.expression import (
    Quantity,
    exact_number,
    missing_number,
    named,
    recorded_number,
)
from report.studies.tuning_tips import theory
from report.studies.tuning_tips.subject import NETWORKS, Trial
from report.theory.roofline import load, sheet_roof


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def trials(self) -> dict[Trial, Case]:
        """Trial → case of the record."""
        cases = {}
        for case in self.stored.record.cases:
            tip, network, batch, memory = (case.factors[name] for name in Trial._fields)
            cases[Trial(str(tip), str(network), int(batch), str(memory))] = case
        return cases

    def trials_of(self, tip: str, memory: str = "returned") -> list[Trial]:
        """Return the trials of a tip under a policy for freed memory."""
        return [trial for trial in self.trials if (trial.tip, trial.memory) == (tip, memory)]

    def series_of(self, quantity: str, trial: Trial) -> Quantity:
        """Return a quantity with the tip, or without the tip if its name begins with ``baseline_``.

        Missing if the tip returns a wrong result, or if the network has no batch norm to fuse.
        """
        if self.verdict(trial).word == "wrong":
            return missing_number(quantity, quantity_of(quantity).unit, "the result is wrong")
        if (trial.tip, trial.network) == ("fused", NETWORKS[0]):
            return missing_number(quantity, quantity_of(quantity).unit, "it has no batch norm")
        return self.series(quantity, trial._asdict())

    @cached
    def speedup(self, trial: Trial) -> Quantity:
        """Divide the time without the tip by the time with the tip, per pair of processes."""
        return self.series_of("baseline_time", trial) / self.series_of("time", trial)

    @cached
    def verdict(self, trial: Trial) -> ComparisonVerdict:
        """Return the verdict on a trial, such as "faster" or "wrong"."""
        if trial not in self.trials:
            return ComparisonVerdict(trial.tip, "not measured")
        return comparison_verdict(self.stored.record, self.trials[trial], margin=0.0)

    @cached
    def predicted_speedup(self, trial: Trial) -> Quantity:
        """Predict a trial's speed-up by the theory that was committed before the run."""
        if trial.memory == "kept":
            return self.predicted_where_kept(trial)
        if trial.tip == "bfloat16":  # the recorded layers have half the bytes of float32
            time = self._roofline_time(trial, "float32", bytes_factor=2)
            return time / self._roofline_time(trial, "bfloat16", bytes_factor=1)
        if trial.tip not in theory.SAVED:
            return exact_number("theory", "1", 1, self.file)
        time = self.series_of("baseline_time", trial)
        unit, ceiling, saved_amount = theory.SAVED[trial.tip]
        amount = saved_amount(self.trials[trial].layers)
        saved_by_theory = exact_number("saved by theory", unit, amount, self.file)
        saved_time = saved_by_theory / self.peak_rate(ceiling)
        saved_share = point_estimate(saved_time / time)
        if not isinstance(saved_share, Missing) and saved_share >= 1:
            return missing_number("prediction", "1", "theory saves more than the call takes")
        return time / (time - saved_time)

    def _roofline_time(self, trial: Trial, dtype: str, bytes_factor: int) -> Quantity:
        """Return the roofline's time (s) of a call that moves ``bytes_factor`` · recorded bytes."""
        peak = point_estimate(self.peak_rate("matrix_product", dtype))
        bandwidth = point_estimate(self.peak_rate("copy"))
        if isinstance(peak, Missing) or isinstance(bandwidth, Missing):
            return missing_number("least time", "s", f"no ceilings in {dtype} on {self.label}")
        roof, loads = sheet_roof(peak, bandwidth), map(load, self.trials[trial].layers)
        seconds = sum(roof.least_time(item.flops, bytes_factor * item.bytes) for item in loads)
        return exact_number("least time", "s", seconds, self.file)

    @cached
    def page_mapping_time(self) -> Quantity:
        """Return the median time (s) of mapping a page, which was measured without a network."""
        return named("price of a page", self.median(1 / self.peak_rate("page_mapping")))

    def median(self, quantity: Quantity) -> Quantity:
        """Return the median of a quantity in all pairs, as a number without uncertainty."""
        return recorded_number("median", str(quantity.unit), point_estimate(quantity), self.file)

    def saved_pages(self, trial: Trial) -> Quantity:
        """Return the page faults without a tip minus the page faults with the tip."""
        return self.series_of("baseline_page_faults", trial) - self.series_of("page_faults", trial)

    def saved_time_per_page(self, trial: Trial) -> Quantity:
        """Divide the time (s) that a tip saves by the number of pages that it saves."""
        saved_time = self.series_of("baseline_time", trial) - self.series_of("time", trial)
        return saved_time / self.saved_pages(trial)

    def time_kept(self, trial: Trial, name: str, page_time: Quantity | None = None) -> Quantity:
        """Predict the time (s) with memory kept: time with memory returned minus its page faults.

        ``name`` is ``time`` for calls with the tip, or ``baseline_time`` for calls without it.
        ``page_time`` is the time (s) of a page fault, by default ``page_mapping_time``.  Medians of
        all pairs are used, as in the program that was committed before the run.
        """
        returned = trial._replace(memory="returned")
        time = self.median(self.series_of(name, returned))
        faults = self.median(self.series_of(name.replace("time", "page_faults"), returned))
        return time - faults * (page_time or self.page_mapping_time())

    @cached
    def predicted_where_kept(self, trial: Trial, page_time: Quantity | None = None) -> Quantity:
        """Predict the speed-up with memory kept, from the predicted times with memory kept."""
        time_without_tip = self.time_kept(trial, "baseline_time", page_time)
        return time_without_tip / self.time_kept(trial, "time", page_time)
