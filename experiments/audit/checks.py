"""The verdict on a claim of a table, and the readings that explain a difference."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from experiments.audit.quantities import AuditedCell
from experiments.audit.rules import FORMULAS, INPUTS, LIMITS, AuditedRow, NotEnoughError
from report.theory.rounding import Rounded

ClaimVerdict: TypeAlias = Literal["consistent", "differs", "impossible", "not enough given"]


@dataclass(frozen=True)
class ClaimCheck:
    """A claim; what it is computed to be, or what is missing; the most that is possible."""

    claim: str
    printed: AuditedCell
    recomputed: Rounded | None
    missing: str
    limit: Rounded | None
    formulas: tuple[str, ...]
    explanations: tuple[str, ...]

    @property
    def verdict(self) -> ClaimVerdict:
        """Compare the interval of the printed digits with that of the recomputed value."""
        if self.limit and self.printed.number.interval.low > self.limit.interval.high:
            return "impossible"
        if self.recomputed is None:
            return "not enough given"
        meets = self.printed.number.interval.meets(self.recomputed.interval)
        return "consistent" if meets else "differs"

    @property
    def factor(self) -> float | None:
        """Printed over recomputed value."""
        number = self.recomputed
        return float(self.printed.number.value / number.value) if number else None

    def as_json(self) -> dict[str, Any]:
        """Return the check as an object of JSON, numbers in units without prefix."""
        number = self.recomputed
        return {
            "claim": self.claim,
            "printed": self.printed.text,
            "verdict": self.verdict,
            "recomputed": float(number.value) if number else None,
            "interval": [float(end) for end in number.interval] if number else None,
            "factor": self.factor,
            "formulas": self.formulas,
            "missing": self.missing,
            "explanations": self.explanations if self.verdict != "consistent" else (),
        }


def checks(row: AuditedRow) -> list[ClaimCheck]:
    """Check all claims of a row; an input is none where nothing gives its value or limits it."""
    results = [_check(row, claim) for claim in FORMULAS if claim in row.numbers]
    claims = [r for r in results if r.claim not in INPUTS or r.verdict != "not enough given"]
    return claims or results


def _check(row: AuditedRow, claim: str) -> ClaimCheck:
    printed, missing, limit = row.numbers[claim], "", None
    recomputed, explanations = None, []
    row.used.clear()
    try:
        recomputed = row.claimed(claim)
    except NotEnoughError as lack:
        missing = str(lack)
    formulas = tuple(dict.fromkeys(reversed(row.used)))
    with suppress(NotEnoughError):
        limit = row.evaluate(LIMITS[claim]) if claim in LIMITS else None
    if recomputed and not printed.number.interval.meets(recomputed.interval):
        for text, value in row.readings(claim):
            if printed.number.interval.meets(value.interval) and text not in explanations:
                explanations.append(text)
    return ClaimCheck(claim, printed, recomputed, missing, limit, formulas, tuple(explanations))
