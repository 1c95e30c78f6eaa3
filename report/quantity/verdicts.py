"""The rule for verdicts on claims.

An interval inside the claimed range supports the claim, an interval outside the range refutes the
claim, and with any other interval the claim is undecided.  Noise thus decides no claim, since it
widens intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, bonferroni
from report.quantity.evaluation import compared_in_pairs, estimate
from report.quantity.expression import Statement

Verdict: TypeAlias = Literal["supported", "refuted", "undecided", "not measured"]

#: Tolerance for rounding errors in sums of confidence levels.
_LEVEL_TOLERANCE: Final = 1e-9


def verdict_of(statement: Statement, confidence: float = CONFIDENCE) -> Verdict:
    """Judge one comparison at the level ``confidence``.

    The verdict is undecided if the data cannot reach ``confidence``: the minimum and maximum of
    three processes, for example, bound a median with only 75 % confidence.  It is also undecided
    if the result has no bounds, is from one process, or was disturbed by other programs.
    """
    if statement.quantity.missing:
        return "not measured"
    if is_disturbed(statement) or statement.from_one_process:
        return "undecided"
    result = estimate(statement.quantity, confidence)
    if isinstance(result, Missing) or result.confidence < confidence - _LEVEL_TOLERANCE:
        return "undecided"
    if statement.range.holds(result):
        return "supported"
    return "refuted" if statement.range.excludes(result) else "undecided"


def is_disturbed(statement: Statement) -> bool:
    """Tell whether other programs may have influenced the verdict.

    They do not influence a comparison in pairs of processes: both processes of a pair run under the
    same load, which cancels in the ratio or widens the interval.
    """
    disturbed = any(leaf.disturbed for leaf in statement.sampled)
    return disturbed and not compared_in_pairs(statement.quantity)


def joint_verdict(statements: Sequence[Statement]) -> Verdict:
    """Judge the claim that all ``statements`` hold.

    To support the claim, every statement is tested at the full level (intersection-union test,
    Berger 1982).  If only some statements are refuted, the one that refutes the claim was chosen
    among several, so the error probability is divided (Bonferroni's correction).  If all statements
    are refuted, no choice was made and the full level applies (the first and the last step of Simes
    1986).
    """
    if not statements:
        return "not measured"
    corrected = bonferroni(CONFIDENCE, len(statements))
    if any(verdict_of(statement, corrected) == "refuted" for statement in statements):
        return "refuted"
    verdicts = {verdict_of(statement) for statement in statements}
    return verdicts.pop() if len(verdicts) == 1 else "undecided"
