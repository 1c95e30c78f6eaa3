"""Claims as a study declares them; their sentences stand in its template."""

from __future__ import annotations

import math
from collections.abc import Iterator

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, Estimate
from report.core.text.format import MINUS, NO_BREAK, Number, printed, quantity_text, scale_for
from report.paper.findings import Claim
from report.paper.values import Finding
from report.quantity.evaluation import estimate, number
from report.quantity.verdicts import Range, Several, Statement

#: Of so many parts each is printed; more are counted.
_FEW = 3
#: Shares below this are printed in parts per million, since digits begin after many zeros.
_TINY, _MILLION = 1e-4, 1e6
#: Digits of a bound that is no whole number, such as 1/0.9.
_DIGITS = 4


def judge(id: str, statement: Statement | Several) -> Claim:
    """The claim ``id`` with its verdict, what was found and what was expected, in numbers.

    If these decide nothing, also why.
    """
    because = "; ".join((_numbers(statement), *_undecided(statement)))
    return Claim(id, statement.judge(), because, compared=tuple(_compared(statement)))


def _compared(statement: Statement | Several) -> Iterator[tuple[Finding, float, float]]:
    """Every number of a claim, with the ends of the range in which the claim holds."""
    if isinstance(statement, Several):
        for part in statement.statements:
            yield from _compared(part)
    else:
        yield number(statement.quantity), statement.range.low, statement.range.high


def _numbers(statement: Statement | Several) -> str:
    if isinstance(statement, Several):
        return _numbers_of(statement)
    range, unit = statement.range, str(statement.quantity.unit)
    found = number(statement.quantity)
    if range == Range():
        return _found(found, unit)
    if unit == "1" and isinstance(found, float) and 0 < abs(found) < _TINY:
        expected = _expected(range.low * _MILLION, range.high * _MILLION, range.closed)
        return f"{quantity_text(found * _MILLION, 'ppm')}; expected {expected} ppm"
    return f"{_found(found, unit)}; expected {_expected(range.low, range.high, range.closed)}"


def _numbers_of(several: Several) -> str:
    parts = several.statements
    if len(parts) <= _FEW:
        return (" and " if several.every else " or ").join(map(_numbers, parts))
    verdicts = [part.judge() for part in parts]
    holding, failing = verdicts.count("supported"), verdicts.count("refuted")
    of = "all" if several.every else "any"
    return f"{holding} of {len(parts)} comparisons hold, {failing} fail; expected {of}"


def _undecided(statement: Statement | Several) -> tuple[str, ...]:
    """Why a claim is undecided, each reason in a few words; nothing of one that is decided."""
    if statement.judge() != "undecided":
        return ()
    if isinstance(statement, Several):
        verdicts = ((part, part.judge()) for part in statement.statements)
        reasons = (
            (verdict,) if verdict.startswith("not ") else _undecided(part)
            for part, verdict in verdicts
        )
        return tuple(dict.fromkeys(r for each in reasons for r in each)) or ("joint level too low",)
    if statement.disturbed or statement.alone:
        return ("disturbed" if statement.disturbed else "one process",)
    found, range = estimate(statement.quantity), statement.range
    if isinstance(found, Missing) or found.bimodal:
        bimodal = isinstance(found, Estimate)
        return ("processes in two groups" if bimodal else "no bounded interval",)
    spanned = [end for end in (range.low, range.high) if found.low <= end <= found.high]
    level = f"level below {100 * CONFIDENCE:.0f}{NO_BREAK}%"
    return (f"interval spans {_text(spanned[0])}" if spanned else level,)


def _found(found: Number | Estimate | Missing, unit: str) -> str:
    """A number with its interval, and its level where that is lower than usual."""
    if isinstance(found, Missing):
        return found.reason
    parts = printed(found, scale_for(found, unit))
    bounds = f" {parts.bounds}{parts.level}".replace(" [", f"{NO_BREAK}[") if parts.bounds else ""
    return f"{parts.number}{parts.after}{bounds}"


def _expected(low: float, high: float, closed: bool) -> str:
    if math.isinf(low):
        return f"{'at most' if closed else 'below'} {_text(high)}"
    if math.isinf(high):
        return f"{'at least' if closed else 'above'} {_text(low)}"
    return _text(low) if low == high else f"{_text(low)} to {_text(high)}"


def _text(bound: float) -> str:
    digits = 10 if float(bound).is_integer() else _DIGITS
    return f"{bound:.{digits}g}".replace("-", MINUS)
