"""All timed cases in rounds: each round a process that measures every case in an order of its own.

Calls of one process resemble each other more than those of several do, since a process keeps what
it drew by chance; so the process is the unit, and every case is measured by several.  The order is
shuffled, so that slow changes of the machine reach all cases alike, and memory policies take turns.
A case that something else on the machine disturbed is measured again by a further process, as far
as there is time; both are kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from statistics import median
from typing import Final, NamedTuple

import msgspec

from experiments.harness.journal import Done, Ended, Journal
from experiments.harness.processes import measured
from experiments.harness.progress import Observer
from experiments.harness.study import Factors, Session, Study
from experiments.harness.text import duration_text, factors_text
from report.records.record import Case, Policy, Round
from report.records.shards import measures_process, outcome

#: Further processes for what was disturbed: at most so many a policy, and so much of the time.
REPEATS: Final = 3
REPEAT_SHARE: Final = 0.25


# -------------------------------------------------------------------------------------- planning


class Turn(NamedTuple):
    """One process: its number under its policy."""

    process: int
    policy: Policy


def turns(processes: Mapping[Policy, int]) -> tuple[Turn, ...]:
    """All processes in order; policies take turns, and each begins every other time."""
    planned = []
    for process in range(1, max(processes.values(), default=0) + 1):
        here = [Turn(process, policy) for policy, n in processes.items() if process <= n]
        planned += here if process % 2 else here[::-1]
    return tuple(planned)


def shuffled(cases: Iterable[int], seed: int, turn: Turn) -> tuple[int, ...]:
    """``cases`` in the order of one process, which the seed of the record repeats."""
    order = sorted(cases)
    Random(f"{seed} {turn.policy} {turn.process}").shuffle(order)
    return tuple(order)


def affordable(
    cases: Iterable[int], log: Sequence[Ended], policy: Policy, turns_left: int, left_s: float
) -> tuple[int, ...]:
    """The cases that a process measures, so that all that is to come fits into ``left_s``.

    ``turns_left`` counts this process and those after it, of all policies.  Each case is given the
    same time in all, the largest with which everything fits; those that last longer are left out
    of the processes that this time does not reach.  What has not been measured yet is not left out.
    """
    cases = tuple(cases)
    spent: dict[int, float] = dict.fromkeys(cases, 0.0)
    latest: dict[int, float] = {}
    for ended in log:
        if ended.case in spent:
            spent[ended.case] += ended.seconds
            latest[ended.case] = ended.seconds
    tried = {ended.case for ended in log if ended.round.policy == policy}
    demand = {case: (spent[case], latest.get(case, 0.0) * turns_left) for case in cases}
    most = water_level(tuple(demand.values()), left_s)
    return tuple(
        case
        for case in cases
        if case not in tried or spent[case] + latest.get(case, 0.0) <= most * (1 + 1e-9)
    )


def water_level(demand: Sequence[tuple[float, float]], supply: float) -> float:
    """The time that each may have in all, when ``supply`` is shared out.

    ``demand`` are (spent, wanted) in s.  Whoever has had least is served first, as water fills a
    vessel of uneven ground: nobody gets more than it wants.  Infinite where all can be served.
    """
    if sum(wanted for _, wanted in demand) <= supply:
        return float("inf")
    edges = sorted({spent for spent, _ in demand} | {spent + wanted for spent, wanted in demand})
    for low, high in pairwise(edges):
        needed = sum(min(max(high - spent, 0.0), wanted) for spent, wanted in demand)
        if needed > supply:
            below = sum(min(max(low - spent, 0.0), wanted) for spent, wanted in demand)
            return low + (high - low) * (supply - below) / (needed - below)
    return edges[-1]


def to_repeat(
    cases: Iterable[int], log: Sequence[Ended], policy: Policy, planned: int
) -> tuple[int, ...]:
    """The cases of which a process under ``policy`` was disturbed and no further one made up.

    Processes beyond the number that was ``planned`` are such further ones.
    """
    repeated = []
    for case in cases:
        rounds = (ended.round for ended in log if ended.case == case)
        well = [each for each in rounds if each.policy == policy and each.status == "ok"]
        if sum(r.disturbance is None for r in well) < sum(r.process <= planned for r in well):
            repeated.append(case)
    return tuple(repeated)


# ------------------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Rounds:
    """What all rounds of a run share; ``cases`` are the timed ones by their number.

    ``budget`` is the time for all rounds of this run (s), infinite where none was given.
    """

    study: Study
    session: Session
    cases: Mapping[int, Factors]
    journal: Journal
    observer: Observer
    budget: float

    def left(self, share: float = 1.0) -> float:
        """Seconds of the budget, times ``share``, that this run and those before have left."""
        return share * self.budget - sum(ended.seconds for ended in self.journal.rounds)


def measure(study: Study, session: Session, journal: Journal, observer: Observer) -> None:
    """Measure what the journal does not hold yet; every outcome is in it before the next begins.

    Raises ``MeasurementError`` if a process cannot be started at all.
    """
    protocol, shard, finished = journal.header.protocol, journal.header.shard, journal.finished
    cases = {
        index: factors
        for index, factors in enumerate(journal.header.cases)
        if study.has_times and study.is_timed(factors)
        # One that did not end well when it was measured once is not; another shard may have it.
        if index not in finished or finished[index].status == "ok"
    }
    if not cases:
        return
    planned = turns(protocol.processes)
    own = [turn for turn in planned if measures_process(shard, turn.process)]
    share = len(own) / len(planned) if planned else 1.0
    budget = float("inf") if protocol.budget_s is None else share * protocol.budget_s
    rounds = Rounds(study, session, cases, journal, observer, budget)
    # Every case is timed under the policy of the studies, where it is there.
    main = "retained" if "retained" in protocol.processes else next(iter(protocol.processes), "")
    everywhere = [case for case, factors in cases.items() if study.under_every_policy(factors)]
    observer.begin(f"Measuring {len(cases)} cases in {len(own)} processes.")
    for number, turn in enumerate(own):
        here = cases if turn.policy == main else everywhere
        left = len(own) - number
        chosen = affordable(here, journal.rounds, turn.policy, left, rounds.left())
        _take(turn, chosen, rounds, number / len(own), 1 / len(own))
    for policy, count in protocol.processes.items():
        _repeat(policy, count, min(REPEATS, sum(turn.policy == policy for turn in own)), rounds)


def _repeat(policy: Policy, planned: int, most: int, rounds: Rounds) -> None:
    """At most so many further processes for the cases that were disturbed."""
    for process in range(planned + 1, planned + 1 + most):
        cases = to_repeat(rounds.cases, rounds.journal.rounds, policy, planned)
        if not cases or rounds.left(1 + REPEAT_SHARE) <= 0:
            return
        rounds.observer.note(f"Measuring {len(cases)} disturbed cases again.")
        _take(Turn(process, policy), cases, rounds, done=1.0, share=0.0)


def _take(turn: Turn, cases: Iterable[int], rounds: Rounds, done: float, share: float) -> None:
    """One process, for the cases of which the journal holds nothing of it."""
    log = rounds.journal
    had = {e.case for e in log.rounds if (e.round.process, e.round.policy) == turn}
    seed = log.header.protocol.seed
    waiting = {case: rounds.cases[case] for case in shuffled(cases, seed, turn) if case not in had}
    planned, began = len(had) + len(waiting), time.monotonic()
    session, debug = replace(rounds.session, process=turn.process), rounds.observer.debug
    for message in measured(rounds.study, "time", session, turn.policy, waiting, debug):
        match message:
            case Ended():
                ended = message
            case Done(case=case, status=status, reason=str(reason)):
                ended = Ended(
                    case=case,
                    round=Round(
                        process=turn.process,
                        policy=turn.policy,
                        status=status,
                        reason=reason,
                        disturbance=None,
                        series=(),
                    ),
                    seconds=time.monotonic() - began,
                )
            case _:
                continue
        began = time.monotonic()
        log.append(ended)
        had.add(ended.case)
        times = ended.round.samples("time")
        result = duration_text(median(times)) if times else "ok"
        told = ended.round.reason or ended.round.disturbance or result
        case_text = factors_text(rounds.cases[ended.case])
        text = f"{case_text}: process {turn.process}, memory {turn.policy}, {told}"
        rounds.observer.progressed(text, min(done + share * len(had) / planned, 1.0))


def added(cases: Sequence[Case], log: Sequence[Ended]) -> tuple[Case, ...]:
    """The cases with their rounds, in the order of measuring, and the outcome of those."""
    found = []
    for index, case in enumerate(cases):
        of = tuple(ended.round for ended in log if ended.case == index)
        status, reason = outcome(of) if of else (case.status, case.reason)
        found.append(msgspec.structs.replace(case, rounds=of, status=status, reason=reason))
    return tuple(found)
