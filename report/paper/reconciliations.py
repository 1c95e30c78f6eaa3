"""Reconciliations as a reader sees them: a table and a waterfall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from figures.panels import Bar, Waterfall
from report.core.missing import Missing
from report.core.text.format import scale_for
from report.paper.tables import Content, Table, table_of
from report.quantity.expression import exact
from report.theory.reconciliation import EXPLAINED, UNEXPLAINED, Level, Reconciliation, Term


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


def series_table(
    id: str,
    reconciliations: Mapping[Level, Reconciliation],
    *sources: str,
    factor: str = "Batch",
) -> Table | None:
    """Tabulate one reconciliation per row, by the level of ``factor``; None if there are none.

    Formulas and evidence become notes.  Raises ``StudyError`` unless all have the same unit and
    the same names of start and terms.
    """
    if not reconciliations:
        return None
    measured, residual = "", EXPLAINED
    for reconciliation in reconciliations.values():
        if isinstance(reconciliation.measured, Term):
            measured = measured or reconciliation.measured.name
            if not reconciliation.explained:
                residual = UNEXPLAINED
    rows = [
        {factor: level, **_amounts(reconciliation, measured or "Measured", residual)}
        for level, reconciliation in reconciliations.items()
    ]
    table = table_of(id, rows, wide=True)  # refuses rows with other terms
    return replace(table, notes=_term_notes([*reconciliations.values()]), sources=sources)


def _amounts(reconciliation: Reconciliation, measured: str, residual: str) -> dict[str, Content]:
    """Cells of one row; ``measured`` and ``residual`` head the last two columns."""
    counted, unit = reconciliation.measured, reconciliation.unit
    amounts = {
        **{term.name: term.amount for term in (reconciliation.start, *reconciliation.terms)},
        "Sum": reconciliation.end,
        measured: counted if isinstance(counted, Missing) else counted.amount,
        residual: reconciliation.residual,
    }
    cells: dict[str, Content] = {}
    for name, amount in amounts.items():
        cell = amount if isinstance(amount, Missing) else exact(name, unit, amount)
        cells[f"{name} ({unit})"] = cell
    return cells


def _term_notes(rows: Sequence[Reconciliation]) -> tuple[str, ...]:
    """Write a sentence per term: its formula, and its evidence if all rows have the same.

    Rows in which a term is 0 need no evidence unless all are.
    """
    notes = []
    for terms in zip(*((row.start, *row.terms) for row in rows), strict=True):
        formulas = " or ".join(dict.fromkeys(term.formula for term in terms))
        counted = [term for term in terms if term.amount] or terms
        evidence = {term.evidence for term in counted}
        shown = f" ({evidence.pop()})" if len(evidence) == 1 and "" not in evidence else ""
        notes.append(f"{terms[0].name}: {formulas}{shown}.")
    return tuple(notes)
