"""Reconcile theory with a measurement: theory, plus named terms, plus a residual.

A reconciliation starts from the value of theory, adds terms with a name, a formula and evidence,
and compares the sum with the measurement.  Terms are computed from shapes and known algorithms,
never fitted to the difference.  The residual is the measurement minus the sum.
"""

from dataclasses import asdict, dataclass
from typing import Any

from report.core.errors import StudyError


@dataclass(frozen=True)
class Term:
    """Named summand between theory and measurement.

    - ``amount``: signed number in the unit of the reconciliation;
    - ``formula``: how shapes determine the amount;
    - ``evidence``: why the term applies, such as a kernel's name or an event of an allocator.
    """

    name: str
    amount: int
    formula: str
    evidence: str


@dataclass(frozen=True)
class Reconciliation:
    """Theoretical value (``start``) of a ``subject``, terms that theory omits, and a measurement.

    All amounts are whole numbers in ``unit`` (``FLOP``, ``MAC`` or ``B``).  Raises ``StudyError``
    if two terms, or a term and ``start``, have the same name.
    """

    id: str
    subject: str
    unit: str
    start: Term
    terms: tuple[Term, ...]
    measured: Term

    def __post_init__(self) -> None:
        names = [self.start.name, *(term.name for term in self.terms)]
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise StudyError(
                f"reconciliation {self.id}: two terms have the name {repeated[0]!r}; rename one."
            )

    @property
    def end(self) -> int:
        """Sum of start and terms."""
        return self.start.amount + sum(term.amount for term in self.terms)

    @property
    def residual(self) -> int:
        """Measurement minus ``end``: the amount that no term explains."""
        return self.measured.amount - self.end

    @property
    def explained(self) -> bool:
        """Whether the terms sum to the measurement exactly."""
        return self.residual == 0

    def as_json(self) -> dict[str, Any]:
        """Return the reconciliation as JSON, with sum and residual."""
        sums = {"sum": self.end, "residual": self.residual, "explained": self.explained}
        return asdict(self) | sums
