"""Two fitted parameters per library, and two baselines that know less.

An iteration takes ``c + s · t``, where ``t`` is its least time on the machine.  ``c`` and ``s``
follow from the smallest and the largest width alone; all other cases are predicted by them.  One
baseline has one pair for all libraries, the other one takes the measured time of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal, TypeAlias

from report.evidence.remembered import known, remembered
from report.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, named
from report.studies.backend_speedup.measured import NUMPY, VARIANTS, Run, Variant, of_single
from report.studies.backend_speedup.subject import HIDDEN, Setting
from report.studies.backend_speedup.theory import least_time

#: A prediction within this factor of what was measured is a good one.
GOOD: Final = 1.5
#: So many images and more are a group of their own at the width of the source.
MANY: Final = 16_000

#: The groups were formed after the failures had been seen.
Group: TypeAlias = Literal["convnet", "many", "other"]
#: What predicts: the parameters of the library, one pair for all libraries, NumPy's own time.
Rule: TypeAlias = Literal["own", "common", "numpy"]


@dataclass(frozen=True)
class Model:
    """What a library costs on the machine of a run, from its cases at two widths."""

    run: Run
    variant: Variant
    narrow: Setting
    wide: Setting

    @property
    def slowness(self) -> Quantity:
        """How many times its least time the work takes that the wide case has more."""
        run, v = self.run, self.variant
        more = run.time(self.wide, v) - run.time(self.narrow, v)
        bounds = least_time(run, self.wide, v) - least_time(run, self.narrow, v)
        return of_single(more / bounds)

    @property
    def cost(self) -> Quantity:
        """What an iteration takes beside (s), whatever its size."""
        run, v = self.run, self.variant
        found = run.time(self.narrow, v) - self.slowness * least_time(run, self.narrow, v)
        return of_single(named(f"cost of an iteration with {v.name}", found))

    def predicted(self, setting: Setting) -> Quantity:
        """Time (s) of an iteration of another size."""
        return of_single(self.cost + self.slowness * least_time(self.run, setting, self.variant))


@remembered
def model(run: Run, variant: Variant) -> Model | None:
    """The model of a library, where it was timed at two widths of one number of images."""
    widths = [setting for setting in run.widths() if variant in run.variants(setting)]
    if len(widths) < 2 or isinstance(run.rates(variant), Missing):
        return None
    return Model(run, variant, widths[0], widths[-1])


@dataclass(frozen=True, eq=False)
class Prediction:
    """A case that the model was not made from: its median, and what each rule predicts (s)."""

    setting: Setting
    variant: Variant
    over: Quantity
    measured: float
    predicted: dict[Rule, float]

    @property
    def ratio(self) -> float:
        """Measured over predicted time, by medians."""
        return self.measured / self.predicted["own"]

    @property
    def group(self) -> Group:
        """Which cases it belongs to."""
        if self.setting.network == "convnet":
            return "convnet"
        return "many" if self.setting.hidden == HIDDEN and self.setting.samples >= MANY else "other"

    def error(self, rule: Rule = "own") -> float:
        """The factor by which a rule is off, in either direction; infinite for a time below 0."""
        ratio = self.measured / self.predicted[rule]
        return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


@remembered
def predictions(run: Run) -> tuple[Prediction, ...]:
    """Every case in float32 that no model was made from, of both networks."""
    return tuple(_predictions(run))


def errors(found: Sequence[Prediction], rule: Rule = "own") -> list[float]:
    """By how much a rule is off in every case of which it says something, ascending."""
    return sorted(each.error(rule) for each in found if rule in each.predicted)


def _predictions(run: Run) -> Iterator[Prediction]:
    common = _common(run)
    for setting in (*run.scaled(), *run.scaled("convnet")):
        for variant in run.variants(setting):
            made = model(run, variant)
            if made is None or setting in (made.narrow, made.wide):
                continue
            time = run.time(setting, variant)
            own, measured = point(made.predicted(setting)), point(time)
            if isinstance(own, Missing) or isinstance(measured, Missing):
                continue
            bound = known(point(least_time(run, setting, variant)))
            told: dict[Rule, float] = {"own": own, "common": common[0] + common[1] * bound}
            numpy = point(run.time(setting, NUMPY))
            if variant != NUMPY and not isinstance(numpy, Missing):
                told["numpy"] = numpy
            yield Prediction(setting, variant, time / made.predicted(setting), measured, told)


def _common(run: Run) -> tuple[float, float]:
    """One pair for all libraries: the medians of theirs; zeros where there is no model."""
    made = [each for v in VARIANTS if (each := model(run, v)) is not None]
    costs = [point(each.cost) for each in made]
    slow = [point(each.slowness) for each in made]
    return _median(costs), _median(slow)


def _median(found: Sequence[float | Missing]) -> float:
    return median([each for each in found if not isinstance(each, Missing)] or [0.0])


def right_winners(run: Run) -> tuple[int, int]:
    """In how many cases the model tells whether NumPy or the library is faster, and of how many."""
    own = {each.setting: each for each in predictions(run) if each.variant == NUMPY}
    pairs = [(each, own[each.setting]) for each in predictions(run) if each.setting in own]
    others = [(each, base) for each, base in pairs if each.variant != NUMPY]
    right = [
        (each.predicted["own"] < base.predicted["own"]) == (each.measured < base.measured)
        for each, base in others
    ]
    return sum(right), len(right)
