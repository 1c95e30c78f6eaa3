"""Theory → named terms → measurement: how far arithmetic explains what was measured.

A reconciliation starts from what theory says, adds terms that each have a name, a formula and a
piece of evidence, and compares the sum with the measurement.  Nothing in it is fitted: a term is
computed from shapes and rules, never from the difference that it should explain.  What is left is
the residual, and every output prints it; where it is not 0 it is called unexplained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, TypeVar

from report.core.errors import StudyError
from report.core.missing import Missing

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
        if isinstance(self.residual, Missing) or isinstance(self.measured, Missing):
            return self.residual
        if self.measured.amount == 0:
            return Missing("a share of 0 is undefined") if self.residual else 0.0
        return self.residual / self.measured.amount

    @property
    def explained(self) -> bool:
        """Whether something was measured and the terms explain it to the last unit."""
        return self.residual == 0

    @property
    def residual_name(self) -> str:
        """How the residual is called in every output."""
        return EXPLAINED if self.explained or isinstance(self.measured, Missing) else UNEXPLAINED

    def as_json(self) -> dict[str, Any]:
        """The reconciliation with its sum and its residual; null and a reason where missing."""
        missing = isinstance(self.measured, Missing)
        derived = {
            "sum": self.end,
            "residual": self.residual,
            "residual_share": self.residual_share,
            "explained": self.explained,
            "reason": self.measured.reason if isinstance(self.measured, Missing) else None,
        }
        known = {name: None if isinstance(n, Missing) else n for name, n in derived.items()}
        return asdict(self) | known | ({"measured": None} if missing else {})


def without_idle_terms(found: Mapping[Level, Reconciliation]) -> dict[Level, Reconciliation]:
    """Without the terms that are 0 at every level, which would be empty columns of a table."""
    active = {term.name for r in found.values() for term in r.terms if term.amount}
    return {
        level: replace(r, terms=tuple(term for term in r.terms if term.name in active))
        for level, r in found.items()
    }
