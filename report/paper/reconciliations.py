"""Reconciliations as a reader sees them: a waterfall."""

from __future__ import annotations

from itertools import accumulate

from figures.panels import Bar, Waterfall
from report.core.text.format import scale_for
from report.theory.reconciliation import Reconciliation, Term


def as_figure(reconciliation: Reconciliation) -> Waterfall:
    """Draw a reconciliation as bars; labels carry the exact numbers."""
    measured, unit = reconciliation.measured, reconciliation.unit
    start = Bar(reconciliation.start.name, reconciliation.start.amount)
    terms = tuple(Bar(term.name, term.amount) for term in reconciliation.terms)
    levels = list(accumulate((term.amount for term in terms), initial=start.amount))
    if isinstance(measured, Term):
        levels.append(measured.amount)
    scale = scale_for(max(map(abs, levels)), unit)
    return Waterfall(
        start,
        terms,
        Bar(measured.name, measured.amount) if isinstance(measured, Term) else None,
        reconciliation.residual_name,
        unit,
        f"From zero ({scale.unit})",
        1 / scale.factor,
    )
