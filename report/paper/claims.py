"""Claims as a study declares them; their sentences stand in its template."""

from __future__ import annotations

import math

from report.missing import Missing
from report.paper.findings import Claim
from report.quantity.evaluation import estimate, number
from report.quantity.expression import Quantity
from report.quantity.verdicts import Range, Several, Statement
from report.statistics.estimates import CONFIDENCE, Estimate
from report.text.format import (
    MINUS,
    NO_BREAK,
    bounded,
    interval_text,
    level_text,
    quantity_text,
    scale_for,
)

#: Of so many parts each is printed; more are counted.
_FEW = 3

#: Shares below this are printed in parts per million.
_TINY, _MILLION = 1e-4, 1e6
#: Digits of a bound that is no whole number, such as 1/0.9.
_DIGITS = 4


def judge(id: str, statement: Statement | Several) -> Claim:
    """The claim ``id`` with its verdict and the numbers that decide it."""
    return Claim(id, "", statement.judge(), described(statement))


def described(statement: Statement | Several) -> str:
    """What was found and what was expected, in numbers; if that decides nothing, why."""
    return "; ".join((_numbers(statement), *_undecided(statement)))


def _numbers(statement: Statement | Several) -> str:
    if isinstance(statement, Several):
        return _numbers_of(statement)
    quantity, range = statement.quantity, statement.range
    if _is_tiny(quantity):
        share, scaled = number(quantity), _in_millionths(range)
        assert isinstance(share, int | float)
        return f"{quantity_text(share * _MILLION, 'ppm')}; expected {_expected(scaled)} ppm"
    return f"{found_text(quantity)}; expected {_expected(range)}"


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
        reasons = dict.fromkeys(r for part in statement.statements for r in _open(part))
        return tuple(reasons) or ("joint level too low",)
    if statement.disturbed or statement.alone:
        return ("disturbed" if statement.disturbed else "one process",)
    found, range = estimate(statement.quantity), statement.range
    if isinstance(found, Missing) or found.bimodal:
        bimodal = isinstance(found, Estimate)
        return ("processes in two groups" if bimodal else "no bounded interval",)
    for end in (range.low, range.high):
        if found.low <= end <= found.high:
            return (f"interval spans {_text(end)}",)
    return (f"level below {100 * CONFIDENCE:.0f}{NO_BREAK}%",)


def _open(part: Statement | Several) -> tuple[str, ...]:
    """Why one part of a claim does not decide it."""
    verdict = part.judge()
    return (verdict,) if verdict.startswith("not ") else _undecided(part)


def _is_tiny(quantity: Quantity) -> bool:
    """Whether a share without an interval is so small that its digits begin after many zeros."""
    found = number(quantity)
    return str(quantity.unit) == "1" and isinstance(found, float) and 0 < abs(found) < _TINY


def _in_millionths(range: Range) -> Range:
    return Range(range.low * _MILLION, range.high * _MILLION, range.closed)


def found_text(quantity: Quantity) -> str:
    """A quantity with its interval, and its level where that is lower than usual."""
    found, unit = number(quantity), str(quantity.unit)
    if isinstance(found, Missing):
        return found.reason
    text = quantity_text(found, unit)
    if isinstance(found, Estimate) and bounded(found):
        interval = interval_text(found, scale_for(found, unit))
        return f"{text} {interval}{level_text(found)}".replace(" [", f"{NO_BREAK}[")
    return text


def _expected(range: Range) -> str:
    if math.isinf(range.low) and math.isinf(range.high):
        return "any number"
    if math.isinf(range.low):
        return f"{'at most' if range.closed else 'below'} {_text(range.high)}"
    if math.isinf(range.high):
        return f"{'at least' if range.closed else 'above'} {_text(range.low)}"
    if range.low == range.high:
        return _text(range.low)
    return f"{_text(range.low)} to {_text(range.high)}"


def _text(bound: float) -> str:
    digits = 10 if float(bound).is_integer() else _DIGITS
    return f"{bound:.{digits}g}".replace("-", MINUS)
