"""Reconciliations as a reader sees them: a table and a waterfall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from figures.waterfall import Bar, Waterfall
from report.errors import StudyError
from report.missing import Missing
from report.paper.tables import Cell, Column, Table
from report.text.format import digits, quantity_text, scale_for
from report.theory.reconciliation import EXPLAINED, UNEXPLAINED, Reconciliation


def as_figure(found: Reconciliation, title: str = "") -> Waterfall:
    """The reconciliation as bars; labels carry the exact numbers."""
    levels = list(accumulate((term.amount for term in found.terms), initial=found.start.amount))
    if not isinstance(found.measured, Missing):
        levels.append(found.measured.amount)
    scale = scale_for(max(map(abs, levels)), found.unit)
    return Waterfall(
        start=Bar(found.start.name, found.start.amount, digits(found.start.amount, 0)),
        terms=tuple(Bar(t.name, t.amount, _signed(t.amount)) for t in found.terms),
        total=Bar("Sum", found.end, digits(found.end, 0)),
        measured=_measured_bar(found),
        residual=_residual_bar(found),
        unit=found.unit,
        x_label=f"From zero ({scale.unit})",
        per_label=1 / scale.factor,
        title=title,
    )


def _measured_bar(found: Reconciliation) -> Bar | None:
    if isinstance(found.measured, Missing):
        return None
    return Bar(found.measured.name, found.measured.amount, digits(found.measured.amount, 0))


def _residual_bar(found: Reconciliation) -> Bar | None:
    if isinstance(found.residual, Missing):
        return None
    return Bar(found.residual_name, found.residual, _signed(found.residual))


def _signed(amount: int) -> str:
    return f"+{digits(amount, 0)}" if amount > 0 else digits(amount, 0)


def series_table(
    reconciliations: Mapping[int, Reconciliation] | Mapping[str, Reconciliation],
    id: str,
    caption: str,
    factor: Column | None = None,
    *,
    sources: tuple[str, ...] = (),
    wide: bool = True,
    total: bool = True,
) -> Table:
    """One reconciliation a row, by the level of a factor such as the batch size.

    Formulas and evidence become notes; ``total`` is the column of the sum.  Raises ``StudyError``
    if there is none, or if they do not all have the same unit and the same names of start and
    terms.
    """
    rows = tuple(reconciliations.values())
    first = _common_shape(id, rows)
    unit = first.unit
    named = [r.measured.name for r in rows if not isinstance(r.measured, Missing)]
    bare = all(isinstance(r.measured, Missing) or r.explained for r in rows)
    columns = (
        factor or Column("Batch", "1"),
        *(Column(term.name, unit) for term in (first.start, *first.terms)),
        *((Column("Sum", unit),) if total else ()),
        Column(named[0] if named else "Measured", unit),
        Column(EXPLAINED if bare else UNEXPLAINED, unit),
    )
    cells = tuple((level, *_series_row(r, total)) for level, r in reconciliations.items())
    notes = (*_term_notes(rows), *_residual_notes(reconciliations))
    return Table(id, caption, columns, cells, notes=notes, sources=sources, wide=wide)


def _common_shape(id: str, rows: Sequence[Reconciliation]) -> Reconciliation:
    if not rows:
        raise StudyError(f"table {id}: there is no reconciliation to print; give at least one.")
    shapes = {(r.unit, r.start.name, tuple(term.name for term in r.terms)) for r in rows}
    if len(shapes) > 1:
        raise StudyError(
            f"table {id}: its reconciliations differ in unit or in the names of their terms "
            f"({' against '.join(sorted(map(str, shapes)))}); print them as tables of their own."
        )
    return rows[0]


def _series_row(row: Reconciliation, total: bool) -> tuple[Cell, ...]:
    measured = row.measured if isinstance(row.measured, Missing) else row.measured.amount
    amounts = (row.start.amount, *(term.amount for term in row.terms))
    return (*amounts, *((row.end,) if total else ()), measured, row.residual)


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


def _residual_notes(
    reconciliations: Mapping[int, Reconciliation] | Mapping[str, Reconciliation],
) -> list[str]:
    left = {
        level: share
        for level, r in reconciliations.items()
        if not isinstance(share := r.residual_share, Missing) and not r.explained
    }
    if not left:
        return []
    shares = ", ".join(
        f"{quantity_text(share, '1', 'percent')} at {level}" for level, share in left.items()
    )
    return [f"Unexplained, of what was measured: {shares}."]
