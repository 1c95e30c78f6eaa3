"""Verdicts on claims.

An interval inside the claimed range supports the claim, and an interval outside the range refutes
the claim.  If the interval is partly inside, the claim is undecided.  Noise widens intervals, so
that noise alone neither supports nor refutes a claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, bonferroni
from report.quantity.evaluation import compared_in_pairs, estimate
from report.quantity.expression import Statement

Verdict: TypeAlias = Literal["supported", "refuted", "undecided", "not measured"]

#: Tolerance for rounding errors in confidence levels, which are computed from sums.
_LEVEL_TOLERANCE: Final = 1e-9


def verdict_of(statement: Statement, confidence: float = CONFIDENCE) -> Verdict:
    """Judge ``statement`` at the level ``confidence``; "not measured" if its quantity is missing.

    The verdict is undecided if the data cannot reach ``confidence``.  For example, the minimum and
    maximum of three processes bound a median with a confidence of only 75 %.  The verdict is also
    undecided if the quantity has no estimate, if a single process measured one of its series, or if
    other programs may have disturbed the measurement.
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
    """Tell whether load by other programs may have biased the estimate.

    A ratio of series that the same processes measured is not biased: the load cancels in the ratio
    of each process, or widens the interval, which can only leave a claim undecided.
    """
    disturbed = any(leaf.disturbed for leaf in statement.measured_series)
    return disturbed and not compared_in_pairs(statement.quantity)


def joint_verdict(statements: Sequence[Statement], verdicts: Sequence[Verdict]) -> Verdict:
    """Judge the claim that all ``statements`` hold, with ``verdicts`` at the level ``CONFIDENCE``.

    The claim is supported if each statement is supported (intersection-union test, Berger 1982).
    One refuted statement refutes the claim.  Since it was chosen among several, it must be refuted
    at an error probability divided by their number (Bonferroni's correction).  If all statements
    are refuted, none was chosen, and ``CONFIDENCE`` suffices (the first and the last step of Simes
    1986).  Mixed verdicts leave the claim undecided.
    """
    if not statements:
        return "not measured"
    corrected = bonferroni(CONFIDENCE, len(statements))
    for statement, verdict in zip(statements, verdicts, strict=True):
        # A higher level widens the interval, and so refutes no further statement.
        if verdict == "refuted" and verdict_of(statement, corrected) == "refuted":
            return "refuted"
    return verdicts[0] if len({*verdicts}) == 1 else "undecided"
