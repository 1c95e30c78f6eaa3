"""Whether the runs of a machine found the same times, case by case and two by two."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import combinations
from typing import Final, NamedTuple

from report.evidence.runs import Run
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity, Sampled, exact
from report.records.record import Case, Policy
from report.statistics.estimates import CONFIDENCE, Estimate
from report.text.format import is_range

_SECONDS_AN_HOUR: Final = 3600


class Repeated(NamedTuple):
    """The time of a call in a case (s), under one policy, in two runs of a machine."""

    #: The records of the two, the older first.
    files: tuple[str, str]
    case: Case
    policy: Policy
    times: tuple[Quantity, Quantity]
    first: Estimate
    second: Estimate

    @property
    def ratio(self) -> float:
        """The median of the later run over that of the earlier one."""
        return self.second.value / self.first.value

    @property
    def agrees(self) -> bool:
        """Whether the median of each run lies in the interval of the other."""
        one, other = self.first, self.second
        return one.low <= other.value <= one.high and other.low <= one.value <= other.high

    @property
    def overlaps(self) -> bool:
        """Whether the intervals have a time in common."""
        return self.first.overlaps(self.second)

    @property
    def bounded(self) -> bool:
        """Whether both runs have enough processes for an interval, which is more than a range.

        The interval of the calls of one process speaks of that process alone.
        """
        several = all(
            isinstance(leaf, Sampled) and not leaf.alone
            for time in self.times
            for leaf in time.leaves
        )
        return several and not is_range(self.first) and not is_range(self.second)


def repetitions(run: Run) -> Iterator[Repeated]:
    """Every time that two of the runs pooled in ``run`` both measured, pair by pair of runs."""
    for pair in combinations(run.alone(), 2):
        yield from _of_pair(*pair)


def _of_pair(first: Run, second: Run) -> Iterator[Repeated]:
    measured_in_rounds = [case for case in first.stored.record.cases if case.rounds]
    for case in measured_in_rounds:
        for policy in first.policies:
            times = (
                first.under(policy).series("time", case.factors),
                second.under(policy).series("time", case.factors),
            )
            one, other = map(estimate, times)
            if isinstance(one, Estimate) and isinstance(other, Estimate):
                yield Repeated((first.file, second.file), case, policy, times, one, other)


def agreement(run: Run, repeated: Sequence[Repeated]) -> dict[str, Quantity]:
    """How many runs are pooled in ``run``, how far apart, and how many pairs of times agree."""
    numbers = {
        "repeated_runs": ("runs of the machine", len(run.stored.runs)),
        "repeated_hours": ("hours between the first start and the last", hours_between(run)),
        "repeated": ("pairs of times with intervals", len(repeated)),
        "repeated_agree": ("pairs that agree", sum(each.agrees for each in repeated)),
        "repeated_expected": ("share that agrees if chance alone moves runs", BY_CHANCE),
        "repeated_overlap": ("pairs that overlap", sum(each.overlaps for each in repeated)),
    }
    return {id_: of_all(run, name, number) for id_, (name, number) in numbers.items()}


def expected_agreement(confidence: float = CONFIDENCE) -> float:
    """The share of medians that lie in another run's interval if chance alone moves both.

    ``2 Phi(z / sqrt(2)) - 1``, since the difference of two medians scatters ``sqrt(2)`` times as
    much as each (Cumming and Maillardet, Psychological Methods 11, 2006, doi
    10.1037/1082-989X.11.3.217, of means).
    """
    normal = statistics.NormalDist()
    reach = normal.inv_cdf((1 + confidence) / 2) / math.sqrt(2)
    return 2 * normal.cdf(reach) - 1


#: Runs agree if the median of each is in the other's interval as often as chance alone would have
#: it, to two digits, since that is of a normal distribution.
BY_CHANCE: Final = round(expected_agreement(), 2)


def of_all(run: Run, name: str, number: float) -> Quantity:
    """A number that the runs pooled in ``run`` give together."""
    first, *further = (alone.file for alone in run.alone())
    return exact(name, "1", number, first, tuple(further))


def hours_between(run: Run) -> int:
    """How far the first and the last start of the runs in ``run`` are apart, rounded to hours."""
    first, *_, last = (datetime.fromisoformat(r.stored.record.started) for r in run.alone())
    return round((last - first).total_seconds() / _SECONDS_AN_HOUR)
