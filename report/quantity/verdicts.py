"""One rule for verdicts: an interval inside the claimed range supports, one outside refutes.

Everything else is undecided, so that noise, which widens intervals, never makes a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, bonferroni
from report.quantity.evaluation import compared_in_pairs, estimate
from report.quantity.expression import Inferred, Quantity, Sampled, Statement

Verdict: TypeAlias = Literal["supported", "refuted", "undecided", "not comparable", "not measured"]

#: Tolerance for rounding errors in sums of confidence levels.
_LEVEL_TOLERANCE: Final = 1e-9


@dataclass(frozen=True)
class Several:
    """Claim that all ``statements`` hold, or that any does if ``every`` is false."""

    statements: tuple[Statement | Several, ...]
    every: bool


def verdict_of(claim: Statement | Several, confidence: float = CONFIDENCE) -> Verdict:
    """Judge a claim at the joint level ``confidence``."""
    if isinstance(claim, Several):
        return _joint_verdict(claim, confidence)
    return _single_verdict(claim, confidence)


def _single_verdict(statement: Statement, confidence: float) -> Verdict:
    """Judge one comparison.

    The verdict is undecided if the data cannot reach ``confidence``: the minimum and maximum of
    three processes, for example, bound a median with only 75 % confidence.  It is also undecided
    if the result has no bounds, is from one process, or was disturbed by other programs.
    """
    if statement.quantity.missing:
        return "not measured"
    leaves = statement.quantity.leaves
    devices = {leaf.device for leaf in leaves if isinstance(leaf, Sampled | Inferred)} - {""}
    if statement.about and devices - {statement.about}:
        return "not comparable"
    if is_disturbed(statement) or statement.alone:
        return "undecided"
    result = estimate(statement.quantity, confidence)
    if isinstance(result, Missing) or result.confidence < confidence - _LEVEL_TOLERANCE:
        return "undecided"
    if statement.range.holds(result):
        return "supported"
    return "refuted" if statement.range.excludes(result) else "undecided"


def is_disturbed(statement: Statement) -> bool:
    """Tell whether other programs ran during a measurement, so that they may decide it.

    They do not decide a comparison in pairs of processes: two processes in turn meet the same load,
    which cancels in their ratio or widens its interval.
    """
    disturbed = any(leaf.disturbed for leaf in statement.sampled)
    return disturbed and not compared_in_pairs(statement.quantity)


def _joint_verdict(several: Several, confidence: float) -> Verdict:
    """Judge several statements.

    That all hold is false only if one is, which each part bounds by itself (intersection-union
    test, Berger 1982).  That one of them decides the whole is a choice among several, so that they
    share the level (Bonferroni).  Where each part decides it alone, no choice was made (these are
    the first and the last step of Simes 1986).
    """
    if not several.statements:
        return "not measured"
    shared = bonferroni(confidence, len(several.statements))
    decisive: Verdict = "refuted" if several.every else "supported"
    if any(verdict_of(statement, shared) == decisive for statement in several.statements):
        return decisive
    verdicts = {verdict_of(statement, confidence) for statement in several.statements}
    return verdicts.pop() if len(verdicts) == 1 else "undecided"


def all_of(*statements: Statement | Several) -> Several:
    """Claim that every one of ``statements`` holds."""
    return Several(statements, every=True)


def any_of(*statements: Statement | Several) -> Several:
    """Claim that at least one of ``statements`` holds."""
    return Several(statements, every=False)


def trend(over: Mapping[int, Quantity], *, rising: bool) -> Several:
    """Claim that a positive quantity rises, or falls, from each level to the next."""
    steps = [after / before for before, after in pairwise(over.values())]
    return all_of(*(step > 1 if rising else step < 1 for step in steps))
