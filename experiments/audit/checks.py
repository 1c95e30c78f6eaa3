"""The verdict on a claim of a table, and the readings that explain a difference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from experiments.audit.definitions import FORMULAS, INPUTS, LIKELY, LIMITS, UNLIKELY, Change
from experiments.audit.rows import AuditedCell, AuditedRow, NotEnoughError, known_devices, peak_of
from report.theory.rounding import Interval, Rounded


@dataclass(frozen=True)
class ClaimCheck:
    """A printed claim, its recomputed value or the quantities missing for it, and its limit."""

    claim: str
    printed: AuditedCell
    recomputed: Rounded | None
    missing: str
    limit: Rounded | None
    formulas: tuple[str, ...]
    explanations: tuple[str, ...]

    @property
    def verdict(self) -> Literal["consistent", "differs", "impossible", "not enough given"]:
        """Compare the interval of the printed digits with that of the recomputed value."""
        if self.limit and self.printed.number.interval.low > self.limit.interval.high:
            return "impossible"
        if self.recomputed is None:
            return "not enough given"
        meets = self.printed.number.interval.meets(self.recomputed.interval)
        return "consistent" if meets else "differs"

    def as_json(self) -> dict[str, Any]:
        """Return the check as a JSON object; its numbers are in units without prefix."""
        number = self.recomputed
        return {
            "claim": self.claim,
            "printed": self.printed.text,
            "verdict": self.verdict,
            "recomputed": float(number.value) if number else None,
            "interval": [float(end) for end in number.interval] if number else None,
            "factor": float(self.printed.number.value / number.value) if number else None,
            "formulas": self.formulas,
            "missing": self.missing,
            "explanations": self.explanations,
        }

    def as_text(self) -> str:
        """Describe the check: its verdict, its formulas, and readings that explain a difference."""
        scale, number = self.printed.scale, self.recomputed
        lines = [f"{self.claim} {self.printed.text}: {self.verdict}"]
        if number:
            value, low, high = (float(end / scale) for end in (number.value, *number.interval))
            lines[0] += f", recomputed {value:.4g} ({low:.4g} to {high:.4g})"
            lines.append("; ".join(self.formulas))
            if self.verdict != "consistent":
                factor = float(self.printed.number.value / number.value)
                lines[0] += f", the printed number is {factor:.4g} times as large"
                changes = "; ".join(self.explanations) or "none is known"
                lines.append(f"each of these would explain it, one alone: {changes}")
        elif self.limit and self.verdict == "impossible":
            lines[0] += f", at most {float(self.limit.value / scale):.4g} is possible"
        else:
            lines[0] += f", missing: {self.missing}"
        return "\n  ".join(lines)


def checks(row: AuditedRow) -> list[ClaimCheck]:
    """Check the claims of a row; leave out inputs that can be neither recomputed nor limited."""
    results = [_check(row, claim) for claim in FORMULAS if claim in row.numbers]
    claims = [r for r in results if r.claim not in INPUTS or r.verdict != "not enough given"]
    return claims or results


def _check(row: AuditedRow, claim: str) -> ClaimCheck:
    others = dict(row.numbers)
    printed, rest = others.pop(claim), replace(row, numbers=others, used=[])
    recomputed, missing, limit = None, "", None
    try:
        recomputed = rest.evaluate(claim)
    except NotEnoughError as error:
        missing = str(error)
    formulas = tuple(dict.fromkeys(reversed(rest.used)))
    with suppress(NotEnoughError):
        limit = row.evaluate(LIMITS[claim]) if claim in LIMITS else None
    explanations: dict[str, None] = {}
    if recomputed and not printed.number.interval.meets(recomputed.interval):
        for text, value in _readings(rest, claim, recomputed):
            if printed.number.interval.meets(value.interval):
                explanations[text] = None
    return ClaimCheck(claim, printed, recomputed, missing, limit, formulas, tuple(explanations))


def _readings(row: AuditedRow, claim: str, base: Rounded) -> Iterator[tuple[str, Rounded]]:
    """Yield each single change and the value of the claim after it, the likeliest first."""
    for change in (*LIKELY, *_peaks_of_others(row, claim), *UNLIKELY):
        try:
            if claim in change.of:
                value = base * row.evaluate(change.formula)
            elif change.quantity:
                value = replace(row, swapped={change.quantity: change.formula}).evaluate(claim)
            else:
                continue
        except NotEnoughError:
            continue
        if value.value != base.value:
            yield change.text, value
    if claim == "speedup" and base.interval.low > 1:
        gain = Rounded(base.value - 1, Interval(*(end - 1 for end in base.interval)))
        yield "the gain, a speed-up less 1", gain


def _peaks_of_others(row: AuditedRow, claim: str) -> Iterator[Change]:
    """Yield a change for each peak that other devices have and the row's device has not."""
    quantity = {"mfu": "peak", "bandwidth_use": "memory_peak"}.get(claim)
    if quantity is None:
        return
    operation = row.text("precision") if quantity == "peak" else "memory"
    known = {peak.value for d in row.named_devices() if (peak := peak_of(d, operation))}
    for device in known_devices():
        peak = peak_of(device, operation)
        if peak and peak.value not in known:
            known.add(peak.value)
            text = f"the peak of {device.name}, {peak.value:,g} {peak.unit}"
            yield Change(text, f"{quantity}:{device.key}", quantity)
