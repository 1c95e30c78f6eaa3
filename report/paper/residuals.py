"""What is left between theory and measurement, as a number of the prose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from report.paper.values import Value, exact
from report.theory.reconciliation import Reconciliation, largest_residual

#: The formula of residuals.
LEFT: Final = "measured − sum of terms"


def residual(
    id_: str,
    what: str,
    found: Iterable[Reconciliation],
    unit: str,
    origin: tuple[str, ...],
) -> Value:
    """The residual that is furthest from 0 among several reconciliations."""
    name = f"Residual {what} furthest from zero"
    return exact(f"residual_{id_}", name, largest_residual(list(found)), unit, LEFT, origin)
