"""Claims judged comparison by comparison, as reports of other machines print them.

A paper needs the verdict of a claim.  A report also says which comparison fails and by how much,
and how many processes would decide one that is undecided.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, Estimate
from report.core.text.format import NO_BREAK
from report.paper.claims import bound_text, expected_text, judge, with_interval
from report.paper.findings import Claim
from report.paper.values import Evaluated
from report.quantity.evaluation import estimate, number
from report.quantity.expression import Quantity, Sampled, Statement
from report.quantity.ranges import Range
from report.quantity.verdicts import Several, Verdict, is_disturbed, verdict_of

#: A claim of up to this many comparisons prints all of them; of more, the number that hold.
_FEW: Final = 3
#: Characters of a formula that names a comparison.
_FORMULA: Final = 70
#: More processes than this decide nothing in practice.
_MOST_PROCESSES: Final = 1000
_ROUNDING: Final = 1e-6


@dataclass(frozen=True)
class DetailedClaim(Claim):
    """A claim with what a report prints of its comparisons.

    ``files`` are those that its numbers come from, ``effect`` is the number of a claim of one
    comparison.  ``measured`` and ``expected`` are short texts for tables; ``reasons`` say of each
    comparison that does not hold why, in the order of the claim.
    """

    files: tuple[str, ...] = ()
    effect: Evaluated | None = None
    unit: str = "1"
    measured: str = ""
    expected: str = ""
    reasons: tuple[str, ...] = ()


def judge_in_detail(id: str, statement: Statement | Several) -> DetailedClaim:
    """Judge a claim as ``judge`` does, and keep what its comparisons say."""
    claim = judge(id, statement)
    comparisons = tuple(_comparisons(statement))
    sources = (file for comparison in comparisons for file in comparison.quantity.sources)
    one = comparisons[0].quantity if len(comparisons) == 1 else None
    every = not isinstance(statement, Several) or statement.every
    return DetailedClaim(
        id,
        claim.verdict,
        claim.because,
        compared=claim.compared,
        files=tuple(dict.fromkeys(sources)),
        effect=None if one is None else number(one),
        unit="1" if one is None else str(one.unit),
        measured=_measured(comparisons),
        expected=_expected(comparisons, every=every),
        reasons=tuple(dict.fromkeys(_reasons(comparisons, claim.verdict, every=every))),
    )


def _comparisons(statement: Statement | Several) -> Iterator[Statement]:
    """All comparisons of a claim in their order."""
    if isinstance(statement, Statement):
        yield statement
        return
    for part in statement.statements:
        yield from _comparisons(part)


def _measured(comparisons: tuple[Statement, ...]) -> str:
    if not comparisons or all(comparison.quantity.missing for comparison in comparisons):
        return "not measured"
    if len(comparisons) <= _FEW:
        return "; ".join(_number(comparison.quantity) for comparison in comparisons)
    holding = sum(verdict_of(comparison) == "supported" for comparison in comparisons)
    return f"{holding} of {len(comparisons)} hold"


def _number(quantity: Quantity) -> str:
    """The number with its interval; a missing one in two words, since its reason is long."""
    result = number(quantity)
    return (
        "not measured" if isinstance(result, Missing) else with_interval(result, str(quantity.unit))
    )


def _expected(comparisons: tuple[Statement, ...], *, every: bool) -> str:
    """The range of a claim; of several comparisons all of their ranges, or how many must hold."""
    ranges = list(
        dict.fromkeys(comparison.range for comparison in comparisons if comparison.range != Range())
    )
    texts = [
        expected_text(comparison.low, comparison.high, comparison.closed) for comparison in ranges
    ]
    if len(comparisons) <= _FEW:
        return "; ".join(texts)
    several = "all comparisons" if every else "any comparison"
    return f"{texts[0]} in {several}" if len(texts) == 1 else several


def _reasons(comparisons: tuple[Statement, ...], verdict: Verdict, *, every: bool) -> Iterator[str]:
    """Why a claim is not supported, comparison by comparison; nothing of one that is."""
    if verdict == "supported":
        return
    for comparison in comparisons:
        result = verdict_of(comparison)
        if result == "not measured":
            assert comparison.quantity.missing
            yield comparison.quantity.missing.reason
        elif result == "undecided":
            yield f"{_name(comparison.quantity)}: {undecided_reason(comparison)}"
        elif result == "refuted" and every:
            bounds = expected_text(
                comparison.range.low, comparison.range.high, comparison.range.closed
            )
            text = f"{_name(comparison.quantity)} is {_number(comparison.quantity)}"
            yield f"{text}, expected {bounds}"


def _name(quantity: Quantity) -> str:
    return textwrap.shorten(quantity.formula, _FORMULA, placeholder=" …")


def undecided_reason(statement: Statement) -> str:
    """Why one comparison decides nothing, and how many processes would decide it."""
    if is_disturbed(statement):
        return "other programs ran meanwhile; measure again on a quiet machine"
    if statement.alone:
        return f"one process measured it; at least {_processes_for_level(1, 0.0)} decide"
    result = estimate(statement.quantity)
    if isinstance(result, Missing):
        return result.reason
    if result.bimodal:
        return "the processes fall into two groups, so that no median stands for them"
    count, paired = _processes(statement.quantity)
    units = "pairs" if paired else "processes"
    text = with_interval(result, str(statement.quantity.unit))
    interval = text[text.find("[") :] if "[" in text else f"at {text}"
    inside = [
        end
        for end in (statement.range.low, statement.range.high)
        if result.low <= end <= result.high
    ]
    needed = processes_to_decide(result, statement.range, count)
    deciding = (
        f"at this scatter about {needed:,} would decide"
        if needed
        else f"at this scatter not even {_MOST_PROCESSES:,} would decide"
    )
    if inside:
        ends = " and ".join(map(bound_text, inside))
        bounds = "bounds" if inside[1:] else "bound"
        return (
            f"the interval {interval} of {count} {units} contains the {bounds} {ends}; {deciding}"
        )
    level = f"{100 * result.confidence:.0f}{NO_BREAK}%"
    return f"{count} {units} reach a level of {level} only; {deciding}"


def processes_to_decide(result: Estimate, range: Range, count: int) -> int | None:
    """Processes after which an interval of today's scatter would no longer contain a bound.

    An interval shrinks with the root of their number, around the value of today.  None for more
    than ``_MOST_PROCESSES``.
    """
    needed = float(_processes_for_level(count, result.confidence))
    for end in (range.low, range.high):
        if result.low <= end <= result.high:
            distance = abs(result.value - end)
            reach = result.value - result.low if end < result.value else result.high - result.value
            needed = max(needed, count * (reach / distance) ** 2 if distance else math.inf)
    return math.ceil(needed - _ROUNDING) if needed <= _MOST_PROCESSES else None


def _processes_for_level(count: int, reached: float) -> int:
    """Processes that reach the level of papers, if ``count`` of them reach ``reached``.

    What is lost halves with each further process (see ``median_interval``).
    """
    lost = 1 - reached
    if lost <= 1 - CONFIDENCE + _ROUNDING:
        return count + 1
    return count + math.ceil(math.log2(lost / (1 - CONFIDENCE)))


def _processes(quantity: Quantity) -> tuple[int, bool]:
    """The processes behind the series that has fewest, and whether several series are compared."""
    counts = [len(leaf.processes) for leaf in quantity.leaves if isinstance(leaf, Sampled)]
    return min(counts, default=1), len(counts) > 1
