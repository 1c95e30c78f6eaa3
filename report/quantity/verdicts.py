"""One rule for verdicts: an interval inside the claimed range supports, one outside refutes.

Everything else is undecided, so that noise, which widens intervals, never makes a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from report.core.errors import StudyError
from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, Estimate, bonferroni
from report.quantity.evaluation import compared_in_pairs, estimate
from report.quantity.expression import Inferred, Quantity, Sampled

Verdict: TypeAlias = Literal["supported", "refuted", "undecided", "not comparable", "not measured"]

#: Levels are rounded where they are added up.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class Range:
    """The numbers for which a claim holds; the ends belong to it where ``closed``."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = False

    def holds(self, estimate: Estimate) -> bool:
        """Tell whether the whole interval is in the range."""
        return self._above(self.low, estimate.low) and self._above(estimate.high, self.high)

    def excludes(self, estimate: Estimate) -> bool:
        """Tell whether no part of the interval is in the range."""
        return not (self._above(self.low, estimate.high) and self._above(estimate.low, self.high))

    def _above(self, low: float, high: float) -> bool:
        return low < high or (self.closed and low == high)


def equals(number: float, within: float) -> Range:
    """The range of equivalence: without a margin no measurement could support it.

    Raises ``StudyError`` for a margin that is not positive.
    """
    if not within > 0:
        raise StudyError(f"Equality with {number} needs a positive margin, found {within}.")
    return Range(number - within, number + within, closed=True)


@dataclass(frozen=True)
class Statement:
    """That ``quantity`` lies in ``range``, on a device of the kind ``about`` if that is named.

    A kind that no device has, such as one with the base of a comparison, is comparable to none.
    """

    quantity: Quantity
    range: Range
    about: str = ""

    @property
    def disturbed(self) -> bool:
        """Return whether other programs ran while any of it was measured, and that may decide it.

        They do not decide a comparison in pairs of processes: two processes in turn meet the same
        load, which cancels in their ratio or widens its interval.
        """
        return any(leaf.disturbed for leaf in self._sampled) and not compared_in_pairs(
            self.quantity
        )

    @property
    def alone(self) -> bool:
        """Whether any of it was measured in one process only.

        Calls of one process resemble each other more than those of several, so that their interval
        speaks of that process alone, however narrow it is.
        """
        return any(leaf.alone for leaf in self._sampled)

    @property
    def _sampled(self) -> Iterator[Sampled]:
        return (leaf for leaf in self.quantity.leaves if isinstance(leaf, Sampled))

    def judge(self, confidence: float = CONFIDENCE) -> Verdict:
        """The verdict at the joint level ``confidence``.

        A level that the data do not reach decides nothing: with three processes, whose extremes
        bound a median at 75 %, the verdict is undecided; so is one of measurements that give no
        bounded result, that one process made, or that something else on the machine disturbed.
        """
        if self.quantity.missing:
            return "not measured"
        leaves = self.quantity.leaves
        devices = {leaf.device for leaf in leaves if isinstance(leaf, Sampled | Inferred)} - {""}
        if self.about and devices - {self.about}:
            return "not comparable"
        if self.disturbed or self.alone:
            return "undecided"
        result = estimate(self.quantity, confidence)
        if isinstance(result, Missing) or result.confidence < confidence - _ROUNDING:
            return "undecided"
        if self.range.holds(result):
            return "supported"
        return "refuted" if self.range.excludes(result) else "undecided"


@dataclass(frozen=True)
class Several:
    """That all of ``statements`` hold, or, with ``every`` false, that any one does."""

    statements: tuple[Statement | Several, ...]
    every: bool

    def judge(self, confidence: float = CONFIDENCE) -> Verdict:
        """The verdict at the joint level ``confidence``.

        That all of several hold is false only if one is, which each part bounds by itself
        (intersection-union test, Berger 1982); that one of them decides the whole is a choice among
        several, so that they share the level (Bonferroni).  Where each part by itself decides it,
        no choice was made (these are the first and the last step of Simes 1986).
        """
        if not self.statements:
            return "not measured"
        shared = bonferroni(confidence, len(self.statements))
        decisive: Verdict = "refuted" if self.every else "supported"
        if any(statement.judge(shared) == decisive for statement in self.statements):
            return decisive
        verdicts = {statement.judge(confidence) for statement in self.statements}
        return verdicts.pop() if len(verdicts) == 1 else "undecided"


def all_of(*statements: Statement | Several) -> Several:
    """That every one of ``statements`` holds."""
    return Several(statements, every=True)


def any_of(*statements: Statement | Several) -> Several:
    """That at least one of ``statements`` holds."""
    return Several(statements, every=False)


def trend(over: Mapping[int, Quantity], *, rising: bool) -> Several:
    """That a positive quantity rises, or falls, from each level to the next."""
    steps = [after / before for before, after in pairwise(over.values())]
    return all_of(*(step > 1 if rising else step < 1 for step in steps))
