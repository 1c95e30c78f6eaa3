"""What is left between theory and measurement, as a quantity."""

from __future__ import annotations

from collections.abc import Iterable

from report.missing import Missing
from report.quantity.expression import Inferred, Quantity, absent, exact
from report.quantity.operations import furthest_from_zero
from report.quantity.units import ONE
from report.statistics.estimates import Estimate
from report.theory.reconciliation import Reconciliation


def residual(found: Iterable[Reconciliation], unit: str, *sources: str) -> Quantity:
    """The residual that is furthest from 0 among several reconciliations in ``unit``."""
    source, *others = sources or ("",)
    further = tuple(others)
    parts = [
        exact("measured", unit, item.measured.amount, source, further)
        - exact("sum of terms", unit, item.end, source, further)
        for item in found
        if not isinstance(item.measured, Missing)
    ]
    if not parts:
        return absent("residual", unit, "nothing was measured that could be reconciled")
    return furthest_from_zero(*parts)


def unexplainable(found: Iterable[Reconciliation]) -> Quantity:
    """How many counts no estimate could explain: at most those that none explains here."""
    open_ = sum(not each.explained for each in found)

    def interval(_: float) -> Estimate:
        return Estimate(0, 0, open_, 0, 1.0)

    return Inferred(ONE, "counts that no estimate explains", interval=interval)
