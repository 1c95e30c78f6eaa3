"""Theory → named terms → measurement: how far arithmetic explains what was measured.

A reconciliation starts from what theory says, adds terms that each have a name, a formula and a
piece of evidence, and compares the sum with the measurement.  Nothing in it is fitted: a term is
computed from shapes and rules, never from the difference that it should explain.  What is left is
the residual, and every output prints it; where it is not 0 it is called unexplained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, TypeVar

from figures.waterfall import Axis, Bar, Waterfall
from report.errors import StudyError
from report.format import NO_BREAK, digits, quantity_text, scale_for
from report.missing import Missing
from report.tables import Cell, Column, Table

EXPLAINED: Final = "Residual"
UNEXPLAINED: Final = "Residual, unexplained"

#: Of a factor: a batch size, or the name of what was changed.
Level = TypeVar("Level", int, str)


@dataclass(frozen=True)
class Term:
    """A named number on the way from theory to measurement.

    ``amount`` is signed and in the unit of the reconciliation; ``formula`` says how it is computed
    from shapes or rules, ``evidence`` what shows that it is there: a kernel's name, an event of an
    allocator, a shape.
    """

    name: str
    amount: int
    formula: str
    evidence: str


@dataclass(frozen=True)
class Reconciliation:
    """What theory says of ``subject``, the terms that it leaves out, and what was measured.

    All amounts are whole numbers of ``unit`` (``FLOP``, ``MAC``, ``B``).  Raises ``StudyError`` if
    two terms have the same name.
    """

    id: str
    subject: str
    unit: str
    start: Term
    terms: tuple[Term, ...]
    measured: Term | Missing

    def __post_init__(self) -> None:
        names = [self.start.name, *(term.name for term in self.terms)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise StudyError(
                f"reconciliation {self.id}: two terms have the name {twice!r}; "
                "name each of them for what it is."
            )

    @property
    def end(self) -> int:
        """What start and terms add up to."""
        return self.start.amount + sum(term.amount for term in self.terms)

    @property
    def residual(self) -> int | Missing:
        """Measured minus end: what no term explains."""
        if isinstance(self.measured, Missing):
            return self.measured
        return self.measured.amount - self.end

    @property
    def residual_share(self) -> float | Missing:
        """The residual over the measurement; 0 where both are 0."""
        if isinstance(self.measured, Missing):
            return self.measured
        return _share(self.measured.amount - self.end, self.measured.amount)

    @property
    def explained(self) -> bool:
        """Whether something was measured and the terms explain it to the last unit."""
        return self.residual == 0

    @property
    def residual_name(self) -> str:
        """How the residual is called in every output."""
        return EXPLAINED if self.explained or isinstance(self.measured, Missing) else UNEXPLAINED

    @property
    def compact(self) -> Reconciliation:
        """The same without terms of 0, for a figure."""
        return replace(self, terms=tuple(term for term in self.terms if term.amount))

    def as_sentence(self) -> str:
        """All numbers in words, such as a figure's alternative text needs them."""
        parts = [f"{self.start.name} {self._text(self.start.amount)}"]
        parts += [f"{term.name} {_signed(term.amount)}" for term in self.terms]
        text = f"{self.subject}: {', '.join(parts)}; sum {self._text(self.end)}; "
        if isinstance(self.measured, Missing):
            return f"{text}not measured."
        measured = f"{self.measured.name} {self._text(self.measured.amount)}"
        residual = self._text(self.measured.amount - self.end)
        return f"{text}{measured}; {self.residual_name} {residual}."

    def _text(self, amount: int) -> str:
        return f"{digits(amount, 0)}{NO_BREAK}{self.unit}"

    def as_json(self) -> dict[str, Any]:
        """The reconciliation with its sum and its residual; null and a reason where missing."""
        missing = self.measured.reason if isinstance(self.measured, Missing) else None
        share = self.residual_share
        return {
            "id": self.id,
            "subject": self.subject,
            "unit": self.unit,
            "start": _term_json(self.start),
            "terms": [_term_json(term) for term in self.terms],
            "sum": self.end,
            "measured": None if isinstance(self.measured, Missing) else _term_json(self.measured),
            "residual": None if isinstance(self.residual, Missing) else self.residual,
            "residual_share": None if isinstance(share, Missing) else share,
            "explained": self.explained,
            "reason": missing,
        }

    def as_figure(self, title: str = "") -> Waterfall:
        """The reconciliation as bars; labels carry the exact numbers."""
        levels = list(accumulate((term.amount for term in self.terms), initial=self.start.amount))
        whole = self._axis(max(map(abs, [*levels, *self._measured_amounts()])), "From zero")
        steps = [abs(level - self.start.amount) for level in levels]
        offsets = [abs(amount - self.start.amount) for amount in self._measured_amounts()]
        return Waterfall(
            start=Bar(self.start.name, self.start.amount, digits(self.start.amount, 0)),
            terms=tuple(Bar(t.name, t.amount, _signed(t.amount)) for t in self.terms),
            total=Bar("Sum", self.end, digits(self.end, 0)),
            measured=self._measured_bar(),
            residual=self._residual_bar(),
            unit=self.unit,
            whole=whole,
            detail=self._axis(max([*steps, *offsets]), "From start"),
            title=title,
        )

    def _measured_amounts(self) -> list[int]:
        return [] if isinstance(self.measured, Missing) else [self.measured.amount]

    def _axis(self, largest: int, name: str) -> Axis:
        scale = scale_for(largest, self.unit)
        return Axis(f"{name} ({scale.unit})", 1 / scale.factor)

    def _measured_bar(self) -> Bar | None:
        if isinstance(self.measured, Missing):
            return None
        return Bar(self.measured.name, self.measured.amount, digits(self.measured.amount, 0))

    def _residual_bar(self) -> Bar | None:
        if isinstance(self.residual, Missing):
            return None
        return Bar(self.residual_name, self.residual, _signed(self.residual))


def _signed(amount: int) -> str:
    return f"+{digits(amount, 0)}" if amount > 0 else digits(amount, 0)


def _term_json(term: Term) -> dict[str, Any]:
    return {
        "name": term.name,
        "amount": term.amount,
        "formula": term.formula,
        "evidence": term.evidence,
    }


def as_table(reconciliation: Reconciliation, id: str, caption: str) -> Table:
    """One reconciliation, a row a step; the residual is the last row and never left out."""
    this = reconciliation
    rows = [_row(this, term) for term in (this.start, *this.terms)]
    rows += [
        ("Sum", this.end, _percent(this, this.end), "start and terms added", ""),
        _measured_row(this),
        (this.residual_name, this.residual, _percent(this, this.residual), "measured − sum", ""),
    ]
    columns = (
        Column("Step"),
        Column("Amount", this.unit),
        Column("Of measured", "%"),
        Column("Formula"),
        Column("Evidence"),
    )
    return Table(id, caption, columns, tuple(rows), wide=True)


def _row(reconciliation: Reconciliation, term: Term) -> tuple[Cell, ...]:
    share = _percent(reconciliation, term.amount)
    return term.name, term.amount, share, term.formula, term.evidence


def _measured_row(reconciliation: Reconciliation) -> tuple[Cell, ...]:
    measured = reconciliation.measured
    if isinstance(measured, Missing):
        return "Measured", measured, measured, "", ""
    return _row(reconciliation, measured)


def _percent(reconciliation: Reconciliation, amount: int | Missing) -> Cell:
    """Per cent of the measurement; a whole number where it is one, which prints in full."""
    measured = reconciliation.measured
    if isinstance(measured, Missing) or isinstance(amount, Missing):
        return measured if isinstance(measured, Missing) else amount
    share = _share(amount, measured.amount)
    if isinstance(share, Missing):
        return share
    whole, rest = divmod(100 * amount, measured.amount or 1)
    return 100 * share if rest else whole


def _share(amount: int, measured: int) -> float | Missing:
    if measured == 0:
        return Missing("a share of 0 is undefined") if amount else 0.0
    return amount / measured


def without_idle_terms(found: Mapping[Level, Reconciliation]) -> dict[Level, Reconciliation]:
    """Without the terms that are 0 at every level, which would be empty columns of a table."""
    active = {term.name for r in found.values() for term in r.terms if term.amount}
    return {
        level: replace(r, terms=tuple(term for term in r.terms if term.name in active))
        for level, r in found.items()
    }


def series_table(
    reconciliations: Mapping[int, Reconciliation] | Mapping[str, Reconciliation],
    id: str,
    caption: str,
    factor: Column | None = None,
    *,
    sources: tuple[str, ...] = (),
    wide: bool = True,
) -> Table:
    """One reconciliation a row, by the level of a factor such as the batch size.

    Formulas and evidence become notes.  Raises ``StudyError`` if there is none, or if they do not
    all have the same unit and the same names of start and terms.
    """
    rows = tuple(reconciliations.values())
    first = _common_shape(id, rows)
    unit = first.unit
    named = [r.measured.name for r in rows if not isinstance(r.measured, Missing)]
    bare = all(isinstance(r.measured, Missing) or r.explained for r in rows)
    columns = (
        factor or Column("Batch", "1"),
        *(Column(term.name, unit) for term in (first.start, *first.terms)),
        Column("Sum", unit),
        Column(named[0] if named else "Measured", unit),
        Column(EXPLAINED if bare else UNEXPLAINED, unit),
    )
    cells = tuple((level, *_series_row(r)) for level, r in reconciliations.items())
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


def _series_row(row: Reconciliation) -> tuple[Cell, ...]:
    measured = row.measured if isinstance(row.measured, Missing) else row.measured.amount
    amounts = (row.start.amount, *(term.amount for term in row.terms))
    return (*amounts, row.end, measured, row.residual)


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


def largest_residual(reconciliations: Iterable[Reconciliation]) -> int | Missing:
    """The residual that is furthest from 0 among several reconciliations."""
    left = [r.residual for r in reconciliations]
    known = [residual for residual in left if isinstance(residual, int)]
    if not known:
        return Missing("nothing was measured that could be reconciled")
    return max(known, key=abs)
