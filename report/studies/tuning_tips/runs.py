"""One record of the study, and its comparisons: trials of a tip, timed in pairs of processes.

Words of the paper:
- tip: advice to speed up a call, such as bfloat16; control: a comparison that changes nothing;
- trial: calls of a network with and without a tip, while freed memory is returned or kept;
- memory returned: the C library returns freed memory to the system, so the next call maps pages;
- gain: speed-up by a tip, the time without it over the time with it; price: time to map a page.
"""

from dataclasses import dataclass
from functools import cached_property

from report.core.missing import Missing
from report.core.records.quantities import quantity_of
from report.core.records.record import Case
from report.evidence import runs as any_study
from report.evidence.cached import cached
from report.instruments.comparison import ComparisonVerdict, decide
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
        """Return a quantity with the tip, or without it if its name begins with ``baseline_``."""
        if self.verdict(trial).word == "wrong":
            return missing_number(quantity, quantity_of(quantity).unit, "the result is wrong")
        if (trial.tip, trial.network) == ("fused", NETWORKS[0]):
            return missing_number(quantity, quantity_of(quantity).unit, "it has no batch norm")
        return self.series(quantity, trial._asdict())

    def speedup(self, trial: Trial) -> Quantity:
        """Divide the time without the tip by the time with it, pair by pair."""
        return self.series_of("baseline_time", trial) / self.series_of("time", trial)

    @cached
    def verdict(self, trial: Trial) -> ComparisonVerdict:
        """Return the verdict on a trial, such as "faster" or "wrong"."""
        if trial not in self.trials:
            return ComparisonVerdict(trial.tip, "not measured")
        return decide(self.stored.record, self.trials[trial], margin=0.0)

    def predicted(self, trial: Trial) -> Quantity:
        """Predict a trial's speed-up by the rules that were committed before the run."""
        if trial.memory == "kept":
            return self.predicted_where_kept(trial)
        if trial.tip == "bfloat16":  # the recorded layers have half the bytes of float32
            time = self._roofline_time(trial, "float32", bytes_factor=2)
            return time / self._roofline_time(trial, "bfloat16", bytes_factor=1)
        if trial.tip not in theory.SAVED:
            return exact_number("theory", "1", 1, self.file)
        time = self.series_of("baseline_time", trial)
        unit, ceiling, saved_amount = theory.SAVED[trial.tip]
        amount = exact_number(
            "saved by theory", unit, saved_amount(self.trials[trial].layers), self.file
        )
        saved_time = amount / self.peak_rate(ceiling)
        saved_share = point_estimate(saved_time / time)
        if not isinstance(saved_share, Missing) and saved_share >= 1:
            return missing_number("prediction", "1", "theory saves more than the call takes")
        return time / (time - saved_time)

    def _roofline_time(self, trial: Trial, dtype: str, bytes_factor: int) -> Quantity:
        """Return the roofline's time (s) if ``bytes_factor`` times the recorded bytes are moved."""
        peak = point_estimate(self.peak_rate("matrix_product", dtype))
        bandwidth = point_estimate(self.peak_rate("copy"))
        if isinstance(peak, Missing) or isinstance(bandwidth, Missing):
            return missing_number("least time", "s", f"no ceilings in {dtype} on {self.label}")
        roof, loads = sheet_roof(peak, bandwidth), map(load, self.trials[trial].layers)
        seconds = sum(roof.least_time(item.flops, bytes_factor * item.bytes) for item in loads)
        return exact_number("least time", "s", seconds, self.file)

    def page_price(self) -> Quantity:
        """Return the median time of mapping one page, measured without a network (s)."""
        return named("price of a page", self.median(1 / self.peak_rate("page_mapping")))

    def median(self, quantity: Quantity) -> Quantity:
        """Return a quantity's median over all pairs, as a number without uncertainty."""
        return recorded_number("median", str(quantity.unit), point_estimate(quantity), self.file)

    def saved_pages(self, trial: Trial) -> Quantity:
        """Subtract the page faults with a tip from the page faults without it."""
        return self.series_of("baseline_page_faults", trial) - self.series_of("page_faults", trial)

    def implied_price(self, trial: Trial) -> Quantity:
        """Divide the time that a tip saves by the pages that it saves (s a page)."""
        saved_time = self.series_of("baseline_time", trial) - self.series_of("time", trial)
        return saved_time / self.saved_pages(trial)

    def time_where_kept(self, trial: Trial, name: str, price: Quantity | None = None) -> Quantity:
        """Predict a time where memory is kept: the time where it is returned, less page faults (s).

        Time and faults are medians over all pairs, as in the program that was committed before the
        run.  ``name``: ``time`` with the tip, or ``baseline_time`` without it.  ``price``: time of
        a page fault (s), by default the measured median.
        """
        returned = trial._replace(memory="returned")
        time = self.median(self.series_of(name, returned))
        faults = self.median(self.series_of(name.replace("time", "page_faults"), returned))
        return time - faults * (price or self.page_price())

    def predicted_where_kept(self, trial: Trial, price: Quantity | None = None) -> Quantity:
        """Predict a speed-up where memory is kept from the predicted times without and with it."""
        without = self.time_where_kept(trial, "baseline_time", price)
        return without / self.time_where_kept(trial, "time", price)
