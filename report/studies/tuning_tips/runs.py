"""One record of the study, and its comparisons by tip, network, batch and memory policy."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from report.core.missing import Missing
from report.core.records.quantities import quantity_of
from report.core.records.record import Case
from report.evidence import runs as any_study
from report.evidence.cached import cached
from report.instruments.comparison import ComparisonVerdict, decide
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, exact, named
from report.studies.tuning_tips import theory
from report.studies.tuning_tips.subject import Trial


def known_medians(quantities: Iterable[Quantity]) -> list[float]:
    """Return the medians of quantities that are not missing."""
    medians = map(point, quantities)
    return [median for median in medians if not isinstance(median, Missing)]


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def trials(self) -> dict[Trial, Case]:
        """The cases of the record."""
        cases = {}
        for case in self.stored.record.cases:
            tip, network, batch, memory = (case.factors[name] for name in Trial._fields)
            cases[Trial(str(tip), str(network), int(batch), str(memory))] = case
        return cases

    def trials_of(self, tip: str, memory: str = "returned") -> list[Trial]:
        """Return the comparisons of a tip under a policy for freed memory."""
        return [trial for trial in self.trials if (trial.tip, trial.memory) == (tip, memory)]

    def series_of(self, quantity: str, trial: Trial) -> Quantity:
        """Return a series of a comparison; missing if a result was wrong."""
        if self.verdict(trial).word == "wrong":
            return absent(quantity, quantity_of(quantity).unit, "the result is wrong")
        return self.series(quantity, trial._asdict())

    def speedup(self, trial: Trial) -> Quantity:
        """Divide the time without the tip by the time with it, pair by pair."""
        return self.series_of("baseline_time", trial) / self.series_of("time", trial)

    @cached
    def verdict(self, trial: Trial) -> ComparisonVerdict:
        """Return the verdict on a comparison."""
        if trial not in self.trials:
            return ComparisonVerdict(trial.tip, "not measured")
        return decide(self.stored.record, self.trials[trial], margin=0.0)

    def predicted(self, trial: Trial) -> Quantity:
        """Predict the speed-up from theory, the machine's ceilings and the time without the tip."""
        if trial.memory == "kept":
            return self.predicted_where_kept(trial)
        if trial.tip == "bfloat16":
            return self._predicted_in_bfloat16(trial)
        if trial.tip not in theory.SAVED:
            return exact("theory", "1", 1, self.file)
        base = self.series_of("baseline_time", trial)
        unit, ceiling, amount = theory.SAVED[trial.tip]
        amount_saved = exact("saved by theory", unit, amount(self.trials[trial].layers), self.file)
        saved = amount_saved / self.peak_rate(ceiling)
        part = point(saved / base)
        if not isinstance(part, Missing) and part >= 1:
            return absent("prediction", "1", "theory saves more than the call takes")
        return base / (base - saved)

    def _predicted_in_bfloat16(self, trial: Trial) -> Quantity:
        """Divide the time of both rooflines, which have peaks of their own."""
        roofs = (("matrix_product", "float32"), ("matrix_product", "bfloat16"), ("copy", "float32"))
        rates = known_medians(self.peak_rate(*roof) for roof in roofs)
        if len(rates) < len(roofs):
            return absent("prediction", "1", f"no ceilings in bfloat16 on {self.label}")
        gain = theory.bfloat16_gain(self.trials[trial].layers, *rates)
        return exact("theory", "1", gain, self.file)

    def page_price(self) -> Quantity:
        """Return the time of mapping one page, measured without a network (s)."""
        return named("price of a page", 1 / self.peak_rate("page_mapping"))

    def predicted_where_kept(self, trial: Trial, price: float | None = None) -> Quantity:
        """Predict a speed-up where memory is kept: both times less those of their page faults.

        Times and faults are those where freed memory is returned; ``price`` is the time of a page
        (s), by default as measured, a plain number, so that the prediction is made pair by pair.
        """
        returned = trial._replace(memory="returned")
        seconds = point(self.page_price()) if price is None else price
        if isinstance(seconds, Missing):
            return absent("prediction", "1", f"no price of a page on {self.label}")
        page_time = exact("price", "s", seconds, self.file)
        without, tip = (
            self.series_of(f"{side}time", returned)
            - self.series_of(f"{side}page_faults", returned) * page_time
            for side in ("baseline_", "")
        )
        return without / tip
