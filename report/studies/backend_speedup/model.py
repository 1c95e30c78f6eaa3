"""What a library costs beside its work: a call, and the rate of its product, each timed alone."""

from __future__ import annotations

from dataclasses import dataclass

from report.evidence.remembered import remembered
from report.missing import Missing
from report.quantity.expression import Quantity, exact, named
from report.studies.backend_speedup.measured import VARIANTS, Run, Variant
from report.studies.backend_speedup.subject import (
    PIXELS,
    Setting,
)


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


def models(run: Run) -> tuple[Model, ...]:
    """The model of every library that has one."""
    return tuple(made for v in VARIANTS if (made := model(run, v)) is not None)
