"""What is left between theory and measurement, as a quantity."""

from __future__ import annotations

from collections.abc import Iterable

from report.missing import Missing
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import furthest_from_zero
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
