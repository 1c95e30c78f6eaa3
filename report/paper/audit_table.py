"""The audit of reported values as a reader sees it."""

from __future__ import annotations

from collections.abc import Sequence

from report.evidence.audit import Check
from report.paper.tables import Cell, Column, Table


def audit_table(id: str, caption: str, checks: Sequence[Check], sources: tuple[str, ...]) -> Table:
    """All checks, one a row: the number as printed, what its formula gives, and the verdict."""
    return Table(
        id,
        caption,
        (
            Column("Printed where"),
            Column("Formula"),
            Column("Printed", "1"),
            Column("Recomputed", "1"),
            Column("Printed ÷ recomputed", "1"),
            Column("Unit"),
            Column("Finding"),
        ),
        tuple(map(_row, checks)),
        sources=sources,
        wide=True,
    )


def _row(item: Check) -> tuple[Cell, ...]:
    exactly = item.recomputed.denominator == 1
    recomputed = int(item.recomputed) if exactly else float(item.recomputed)
    factor: Cell = "–" if item.factor is None else item.factor
    derived = item.derived
    unit = "" if derived.unit == "1" else derived.unit
    return (derived.place, item.formula, derived.text, recomputed, factor, unit, item.finding)
