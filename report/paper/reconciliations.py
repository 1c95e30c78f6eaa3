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


def as_figure(found: Reconciliation) -> Waterfall:
    """The reconciliation as bars; labels carry the exact numbers."""
    start, measured = Bar(found.start.name, found.start.amount), found.measured
    levels = list(accumulate((term.amount for term in found.terms), initial=start.amount))
    if isinstance(measured, Term):
        levels.append(measured.amount)
    scale = scale_for(max(map(abs, levels)), found.unit)
    return Waterfall(
        start,
        tuple(Bar(term.name, term.amount) for term in found.terms),
        Bar(measured.name, measured.amount) if isinstance(measured, Term) else None,
        found.residual_name,
        found.unit,
        f"From zero ({scale.unit})",
        1 / scale.factor,
    )


def series_table(
    id: str, found: Mapping[Level, Reconciliation], *sources: str, factor: str = "Batch"
) -> Table | None:
    """One reconciliation a row, by the level of a factor such as the batch size; None of none.

    Formulas and evidence become notes.  Raises ``StudyError`` if they do not all have the same
    unit and the same names of start and terms.
    """
    if not found:
        return None
    names = [each.measured.name for each in found.values() if isinstance(each.measured, Term)]
    explained = all(r.explained or isinstance(r.measured, Missing) for r in found.values())
    last = next(iter(names), "Measured"), EXPLAINED if explained else UNEXPLAINED
    rows = [{factor: level, **_amounts(each, *last)} for level, each in found.items()]
    table = table_of(id, rows, wide=True)  # refuses rows of other terms
    return replace(table, notes=tuple(_term_notes([*found.values()])), sources=sources)


def _amounts(found: Reconciliation, measured: str, residual: str) -> dict[str, Content]:
    counted = found.measured
    amounts = {
        **{term.name: term.amount for term in (found.start, *found.terms)},
        "Sum": found.end,
        measured: counted if isinstance(counted, Missing) else counted.amount,
        residual: found.residual,
    }
    return {
        f"{name} ({found.unit})": each
        if isinstance(each, Missing)
        else exact(name, found.unit, each)
        for name, each in amounts.items()
    }


def _term_notes(rows: Sequence[Reconciliation]) -> list[str]:
    """A sentence a term: its formula, and its evidence where that is the same in all rows.

    Rows where a term is 0 need no evidence unless all are.
    """
    notes = []
    for terms in zip(*((r.start, *r.terms) for r in rows), strict=True):
        formulas = " or ".join(dict.fromkeys(term.formula for term in terms))
        evidence = {term.evidence for term in [t for t in terms if t.amount] or terms}
        shown = f" ({evidence.pop()})" if len(evidence) == 1 and "" not in evidence else ""
        notes.append(f"{terms[0].name}: {formulas}{shown}.")
    return notes
