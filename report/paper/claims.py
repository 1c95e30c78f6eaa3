"""Verdicts on the claims of a study, with the numbers that decide them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.format import MINUS, NO_BREAK, printed, quantity_text, scale_for
from report.paper.findings import Claim
from report.paper.values import Evaluated
from report.quantity.evaluation import estimate, number
from report.quantity.expression import Statement
from report.quantity.ranges import Range
from report.quantity.verdicts import Several, is_disturbed, verdict_of

#: Up to this many comparisons of a claim are printed; more are counted.
_FEW = 3
#: Shares below this are printed in parts per million, to save leading zeros.
_TINY, _MILLION = 1e-4, 1e6
#: Significant digits of a bound that is not a whole number, such as 1/0.9.
_DIGITS = 4


def judge(id: str, statement: Statement | Several) -> Claim:
    """Judge the claim ``id``: verdict, measured and expected numbers, and why it is undecided."""
    because = "; ".join((_numbers(statement), *_undecided(statement)))
    return Claim(id, verdict_of(statement), because, compared=tuple(_compared(statement)))


def _compared(statement: Statement | Several) -> Iterator[tuple[Evaluated, float, float]]:
    """Yield each number of a claim with both ends of the range in which the claim holds."""
    if isinstance(statement, Several):
        for part in statement.statements:
            yield from _compared(part)
    else:
        yield number(statement.quantity), statement.range.low, statement.range.high


def _numbers(statement: Statement | Several) -> str:
    if isinstance(statement, Several):
        return _numbers_of(statement)
    range, unit = statement.range, str(statement.quantity.unit)
    result = number(statement.quantity)
    if range == Range():
        return with_interval(result, unit)
    if unit == "1" and isinstance(result, float) and 0 < abs(result) < _TINY:
        expected = expected_text(range.low * _MILLION, range.high * _MILLION, range.closed)
        return f"{quantity_text(result * _MILLION, 'ppm')}; expected {expected} ppm"
    expected = expected_text(range.low, range.high, range.closed)
    return f"{with_interval(result, unit)}; expected {expected}"


def _numbers_of(several: Several) -> str:
    parts = several.statements
    if len(parts) <= _FEW:
        return (" and " if several.every else " or ").join(map(_numbers, parts))
    verdicts = [verdict_of(part) for part in parts]
    holding, failing = verdicts.count("supported"), verdicts.count("refuted")
    of = "all" if several.every else "any"
    return f"{holding} of {len(parts)} comparisons hold, {failing} fail; expected {of}"


def _undecided(statement: Statement | Several) -> tuple[str, ...]:
    """List why a claim is undecided, in a few words each; empty if it is decided."""
    if verdict_of(statement) != "undecided":
        return ()
    if isinstance(statement, Several):
        reasons: list[str] = []
        for part in statement.statements:
            verdict = verdict_of(part)
            reasons += [verdict] if verdict.startswith("not ") else _undecided(part)
        return tuple(dict.fromkeys(reasons)) or ("joint level too low",)
    return (_undecided_reason(statement),)


def _undecided_reason(statement: Statement) -> str:
    if is_disturbed(statement):
        return "disturbed"
    if statement.alone:
        return "one process"
    result = estimate(statement.quantity)
    if isinstance(result, Missing):
        return "no bounded interval"
    if result.bimodal:
        return "processes in two groups"
    for end in (statement.range.low, statement.range.high):
        if result.low <= end <= result.high:
            return f"interval spans {bound_text(end)}"
    return f"level below {100 * CONFIDENCE:.0f}{NO_BREAK}%"


def with_interval(result: Evaluated, unit: str) -> str:
    """Print a number with its interval, and its level if that is lower than usual."""
    if isinstance(result, Missing):
        return result.reason
    parts = printed(result, scale_for(result, unit))
    bounds = f"{NO_BREAK}{parts.bounds}{parts.level}" if parts.bounds else ""
    return f"{parts.number}{parts.after}{bounds}"


def expected_text(low: float, high: float, closed: bool) -> str:
    if math.isinf(low):
        return f"{'at most' if closed else 'below'} {bound_text(high)}"
    if math.isinf(high):
        return f"{'at least' if closed else 'above'} {bound_text(low)}"
    return bound_text(low) if low == high else f"{bound_text(low)} to {bound_text(high)}"


def bound_text(bound: float) -> str:
    digits = 10 if float(bound).is_integer() else _DIGITS
    return f"{bound:.{digits}g}".replace("-", MINUS)
