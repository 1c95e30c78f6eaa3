"""Two measured numbers a library: what an iteration costs at least, and how far it is from roofs.

An iteration takes ``c + s · t``, where ``t`` is its least time on the machine.  ``c`` and ``s``
follow from the smallest and the largest width alone; all other cases were predicted by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from report.evidence.remembered import remembered
from report.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, named
from report.studies.backend_speedup.measured import Run, Variant
from report.studies.backend_speedup.subject import Setting
from report.studies.backend_speedup.theory import least_time


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
        return more / (least_time(run, self.wide, v) - least_time(run, self.narrow, v))

    @property
    def cost(self) -> Quantity:
        """What an iteration takes beside (s), whatever its size."""
        run, v = self.run, self.variant
        found = run.time(self.narrow, v) - self.slowness * least_time(run, self.narrow, v)
        return named(f"cost of an iteration with {v.name}", found)

    def predicted(self, setting: Setting) -> Quantity:
        """Time (s) of an iteration of another size."""
        return self.cost + self.slowness * least_time(self.run, setting, self.variant)


@remembered
def model(run: Run, variant: Variant) -> Model | None:
    """The model of a library, where it was timed at two widths of one number of images."""
    widths = [setting for setting in run.widths() if variant in run.variants(setting)]
    if len(widths) < 2 or isinstance(run.rates(variant), Missing):
        return None
    return Model(run, variant, widths[0], widths[-1])


@dataclass(frozen=True)
class Prediction:
    """A case that the model was not made from, with its times (s) and their medians."""

    setting: Setting
    variant: Variant
    over: Quantity
    predicted: float
    measured: float

    @property
    def ratio(self) -> float:
        """Measured over predicted time, by medians."""
        return self.measured / self.predicted


@remembered
def predictions(run: Run) -> tuple[Prediction, ...]:
    """Every case in float32 that no model was made from, of both networks."""
    return tuple(_predictions(run))


def _predictions(run: Run) -> Iterator[Prediction]:
    for setting in (*run.scaled(), *run.scaled("convnet")):
        for variant in run.variants(setting):
            made = model(run, variant)
            if made is None or setting in (made.narrow, made.wide):
                continue
            told, time = made.predicted(setting), run.time(setting, variant)
            predicted, measured = point(told), point(time)
            if not isinstance(predicted, Missing) and not isinstance(measured, Missing):
                yield Prediction(setting, variant, time / told, predicted, measured)


def price(run: Run, variant: Variant) -> Quantity:
    """What an iteration with a library costs beside its work (s)."""
    made = model(run, variant)
    return absent("cost", "s", f"no model of it on {run.label}") if made is None else made.cost


def slowness(run: Run, variant: Variant) -> Quantity:
    """How many times its least time an iteration's work takes with a library."""
    made = model(run, variant)
    return (
        absent("slowness", "1", f"no model of it on {run.label}") if made is None else made.slowness
    )
