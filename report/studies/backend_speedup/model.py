"""The time of an iteration from what was measured apart: calls, products, bytes.

An iteration takes

    T = n · o + Σ F / r + Σ Q / B

where ``n`` is the number of calls of the library and ``o`` what one costs, ``F`` is the work of a
product of matrices and ``r`` the rate of the library's product alone with as many rows, ``Q`` are
the bytes that every other call reads and writes and ``B`` is the bandwidth of the level of memory
that holds them.  No time of an iteration is a parameter, so that every case is a prediction.  Two
rules that know less stand beside it: the least time of theory, and the measured time of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Final, Literal, NamedTuple, TypeAlias

from report.evidence import peaks
from report.evidence.remembered import known, remembered
from report.missing import Missing
from report.quantity.evaluation import estimate, point
from report.quantity.expression import Quantity, exact, named
from report.records.layers import ELEMENT_BYTES
from report.studies.backend_speedup.measured import NUMPY, VARIANTS, Run, Variant, of_single
from report.studies.backend_speedup.subject import (
    PIXELS,
    Setting,
    Step,
    calls,
    iteration,
)
from report.studies.backend_speedup.theory import least_time
from report.text.format import is_range

#: A prediction within this factor of what was measured is a good one.
GOOD: Final = 1.5
#: The share of a library's cases that shows a direction of its errors.
_MOST: Final = 0.8
#: What predicts: the library's calls and products, the least time of theory, NumPy's own time.
Rule: TypeAlias = Literal["measured", "least", "numpy"]


@dataclass(frozen=True)
class Model:
    """What a library's calls and products cost on the machine of a run, measured apart."""

    run: Run
    variant: Variant
    widths: tuple[Setting, ...]

    @property
    def call(self) -> Quantity:
        """What one call costs (s): on an array of one element, at the smallest width."""
        found = self.run.measured("call_time", self.widths[0], self.variant)
        return named(f"call of {self.variant.name}", found)

    def rate(self, rows: int) -> Quantity:
        """The rate (FLOP/s) of a product alone whose left matrix has about so many rows.

        It was measured with the rows of each width; the nearest one below is meant, else the first.
        """
        below = [setting for setting in self.widths if setting.hidden <= rows]
        setting = (below or self.widths[:1])[-1]
        work = exact("work of a product", "FLOP", 2 * setting.hidden * PIXELS * setting.samples)
        time = self.run.measured("product_alone_time", setting, self.variant)
        return named(f"rate of products with {setting.hidden} rows", work / time)

    def predicted(self, setting: Setting) -> Quantity:
        """The time (s) of an iteration."""
        steps = (self.time_of(step, setting) for step in iteration(setting))
        return of_single(reduce(add, steps, self.calling(setting)))

    def calling(self, setting: Setting) -> Quantity:
        """What all calls of an iteration cost (s), whatever they compute."""
        return exact("calls of an iteration", "1", calls(setting)) * self.call

    def time_of(self, step: Step, setting: Setting) -> Quantity:
        """What the calls of a step take (s) beside the price of calling."""
        if step.macs:
            return exact(f"work of {step.name}", "FLOP", step.flops) / self.rate(step.rows)
        size = step.called * ELEMENT_BYTES[setting.dtype]
        return exact(f"bytes of {step.name}", "B", size) / bandwidth(self.run, size)


def bandwidth(run: Run, size: int) -> Quantity:
    """The bandwidth (B/s) of the first level of memory that holds so many bytes."""
    rates = run.cache_rates()
    for level in peaks.levels(run.stored.record.environment):
        if size <= level.most and not rates[level.name].missing:
            return rates[level.name]
    return rates[peaks.MEMORY]


@remembered
def model(run: Run, variant: Variant) -> Model | None:
    """The model of a library, where its calls and products were timed apart."""
    widths = [
        setting
        for setting in run.widths()
        if not run.measured("product_alone_time", setting, variant).missing
    ]
    if not widths or isinstance(run.rates(variant), Missing):
        return None
    return Model(run, variant, tuple(widths))


@dataclass(frozen=True, eq=False)
class Prediction:
    """A case: its median, and what each rule predicts (s)."""

    setting: Setting
    variant: Variant
    over: Quantity
    measured: float
    predicted: dict[Rule, float]

    @property
    def ratio(self) -> float:
        """Measured over predicted time, by medians."""
        return self.measured / self.predicted["measured"]

    def error(self, rule: Rule = "measured") -> float:
        """The factor by which a rule is off, in either direction."""
        ratio = self.measured / self.predicted[rule]
        return max(ratio, 1 / ratio)


@remembered
def predictions(run: Run) -> tuple[Prediction, ...]:
    """Every eager case in float32 of the sweeps, of both networks."""
    return tuple(_predictions(run))


def errors(found: Sequence[Prediction], rule: Rule = "measured") -> list[float]:
    """By how much a rule is off in every case of which it says something, ascending."""
    return sorted(each.error(rule) for each in found if rule in each.predicted)


def _predictions(run: Run) -> Iterator[Prediction]:
    for setting in (*run.scaled(), *run.scaled("convnet")):
        for variant in run.variants(setting):
            made = model(run, variant)
            if made is None:
                continue
            time, predicted = run.time(setting, variant), made.predicted(setting)
            own, measured = point(predicted), point(time)
            if isinstance(own, Missing) or isinstance(measured, Missing):
                continue
            bound = known(point(least_time(run, setting, variant)))
            by_rule: dict[Rule, float] = {"measured": own, "least": bound}
            speedup = point(run.speedup(setting, variant))
            if variant != NUMPY and not isinstance(speedup, Missing):
                # As the speed-up is: process by process, since the machine drifts between them.
                by_rule["numpy"] = measured * speedup
            yield Prediction(setting, variant, time / predicted, measured, by_rule)


def parts(run: Run, setting: Setting, variant: Variant) -> dict[str, Quantity]:
    """The shares of a predicted iteration that calls and products have; none without a model."""
    made = model(run, variant)
    if made is None:
        return {}
    whole = made.predicted(setting)
    products = [step for step in iteration(setting) if step.macs]
    return {
        "calls": made.calling(setting) / whole,
        "products": reduce(add, (made.time_of(step, setting) for step in products)) / whole,
    }


def models(run: Run) -> tuple[Model, ...]:
    """The model of every library that has one."""
    return tuple(made for v in VARIANTS if (made := model(run, v)) is not None)


def leaning(run: Run, *, long: bool) -> tuple[Variant, ...]:
    """The libraries of which four of five perceptron cases are predicted too long, or too short."""
    found: dict[Variant, list[bool]] = {}
    for each in predictions(run):
        if each.setting.network == "perceptron":
            found.setdefault(each.variant, []).append((each.ratio < 1) == long)
    return tuple(variant for variant, lean in found.items() if sum(lean) >= _MOST * len(lean))


def _beats_numpy(case: Prediction) -> bool:
    return case.measured < case.predicted.get("numpy", 0.0)


class Winners(NamedTuple):
    """Of the cases in which the measured interval tells the faster of NumPy and another library.

    ``resolved`` of ``cases`` do; ``right`` of these the model names, and ``numpy`` have NumPy.
    """

    right: int
    numpy: int
    resolved: int
    cases: int


@remembered
def winners(run: Run) -> Winners:
    """How often the model names the faster library, where measurement does."""
    own = {each.setting: each for each in predictions(run) if each.variant == NUMPY}
    others = [e for e in predictions(run) if e.variant != NUMPY and e.setting in own]
    resolved = [each for each in others if _resolved(run, each)]
    right = [
        (each.predicted["measured"] < own[each.setting].predicted["measured"]) == _beats_numpy(each)
        for each in resolved
    ]
    first = sum(not _beats_numpy(each) for each in resolved)
    return Winners(sum(right), first, len(resolved), len(others))


def _resolved(run: Run, case: Prediction) -> bool:
    """Whether the interval of the speed-up, at whatever level it has, leaves out one."""
    gain = estimate(run.speedup(case.setting, case.variant))
    if isinstance(gain, Missing) or is_range(gain) or gain.low == gain.high:
        return False  # of one process or two there is no interval
    return gain.low > 1 or gain.high < 1
