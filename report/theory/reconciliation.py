"""Theory → named terms → measurement: how far arithmetic explains what was measured.

A reconciliation starts from what theory says, adds terms that each have a name, a formula and a
piece of evidence, and compares the sum with the measurement.  Nothing in it is fitted: a term is
computed from shapes and rules, never from the difference that it should explain.  The rest is
the residual; every output prints it, and calls it unexplained unless it is 0.
"""

from dataclasses import asdict, dataclass
from typing import Any, Final

from report.core.errors import StudyError
from report.core.missing import Missing

EXPLAINED: Final = "Residual"
UNEXPLAINED: Final = "Residual, unexplained"


@dataclass(frozen=True)
class Term:
    """A named number on the way from theory to measurement.

    ``amount`` is signed and in the unit of the reconciliation; ``formula`` computes it from shapes
    or rules; ``evidence`` shows that the term applies: a kernel's name, an event of an allocator, a
    shape.
    """

    name: str
    amount: int
    formula: str
    evidence: str


@dataclass(frozen=True)
class Reconciliation:
    """Theory of ``subject``, the terms that theory leaves out, and the measurement.

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
        """Sum of start and terms."""
        return self.start.amount + sum(term.amount for term in self.terms)

    @property
    def residual(self) -> int | Missing:
        """Measurement minus end: the amount that no term explains."""
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
        """True if the terms sum to the measurement exactly; false if the measurement is missing."""
        return self.residual == 0

    @property
    def residual_name(self) -> str:
        """Name of the residual in every output."""
        return EXPLAINED if self.explained or isinstance(self.measured, Missing) else UNEXPLAINED

    def as_json(self) -> dict[str, Any]:
        """Return the reconciliation with sum and residual as JSON; null and a reason if missing."""
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
