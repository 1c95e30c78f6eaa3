"""All timed cases in rounds: each round a process that measures every case in an order of its own.

Calls of one process resemble each other more than those of several do, since a process keeps what
it drew by chance; so the process is the unit, and every case is measured by several.  The order is
shuffled, so that slow changes of the machine reach all cases alike, and memory policies take turns.
A case that something else on the machine disturbed is measured again by a further process, as far
as there is time; both are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from random import Random
from statistics import median
from typing import Final, NamedTuple

from experiments.harness.journal import Journal, RoundResult
from experiments.harness.processes import new_task, run_cases
from experiments.harness.progress import Observer, shown
from experiments.harness.study import Factors, Session, Study
from experiments.machine.text import factors_text
from report.records.pooling import measures_process
from report.records.record import Policy

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
    cases: Iterable[int], log: Sequence[RoundResult], policy: Policy, turns_left: int, left_s: float
) -> set[int]:
    """The cases that a process measures in its share of the time that is left.

    ``turns_left`` counts this process and those after it, of all policies.  What has not been
    measured under ``policy`` yet is not left out; of the others those come first on which least
    time has been spent, so that cases that last long are measured by fewer processes.
    """
    spent, latest = defaultdict[int, float](float), dict[int, float]()
    for ended in log:
        spent[ended.case] += ended.seconds
        latest[ended.case] = ended.seconds
    tried = {ended.case for ended in log if ended.round.policy == policy}
    room, chosen = left_s / turns_left, set()
    for case in sorted(cases, key=lambda case: (case in tried, spent[case])):
        takes = latest.get(case, 0.0)
        if case not in tried or takes <= room:
            room -= takes
            chosen.add(case)
    return chosen


def to_repeat(
    cases: Iterable[int], log: Sequence[RoundResult], policy: Policy, planned: int
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


def measure(study: Study, session: Session, journal: Journal, observer: Observer) -> None:
    """Measure what the journal does not hold yet; every outcome is in it before the next begins.

    Raises ``MeasurementError`` if a process cannot be started at all.
    """
    protocol, shard, finished = journal.header.protocol, journal.header.shard, journal.finished
    cases = {
        index: factors
        for index, factors in enumerate(journal.header.factors)
        if study.has_times and study.timed_under(factors) != "none"
        # One that did not end well when it was measured once is not; another shard may have it.
        if index not in finished or finished[index].status == "ok"
    }
    planned = turns(protocol.processes)
    own = [turn for turn in planned if measures_process(shard, turn.process)]
    if not cases or not own:
        return
    whole = inf if protocol.budget_s is None else protocol.budget_s
    budget = whole * len(own) / len(planned)
    main = "retained" if "retained" in protocol.processes else next(iter(protocol.processes))
    everywhere = [case for case, factors in cases.items() if study.timed_under(factors) == "every"]
    observer.begin(f"Measuring {len(cases)} cases in {len(own)} processes.")

    def left(share: float = 1.0) -> float:
        """Seconds of the budget, times ``share``, that this run and those before have left."""
        return share * budget - sum(ended.seconds for ended in journal.rounds)

    def take(turn: Turn, chosen: Iterable[int], done: float, share: float) -> None:
        here = {case: cases[case] for case in shuffled(chosen, protocol.seed, turn)}
        for part, text in _taken(turn, here, study, session, journal, observer):
            observer.progressed(text, min(done + share * part, 1.0))

    for number, turn in enumerate(own):
        here = cases if turn.policy == main else everywhere
        chosen = affordable(here, journal.rounds, turn.policy, len(own) - number, left())
        take(turn, chosen, number / len(own), 1 / len(own))
    for policy, count in protocol.processes.items():
        for more in range(min(REPEATS, sum(turn.policy == policy for turn in own))):
            disturbed = to_repeat(cases, journal.rounds, policy, count)
            if disturbed and left(1 + REPEAT_SHARE) > 0:
                observer.note(f"Measuring {len(disturbed)} disturbed cases again.")
                take(Turn(count + 1 + more, policy), disturbed, 1.0, 0.0)


def _taken(
    turn: Turn,
    cases: Mapping[int, Factors],
    study: Study,
    session: Session,
    journal: Journal,
    observer: Observer,
) -> Iterator[tuple[float, str]]:
    """Let one process measure the ``cases`` of which the journal holds nothing of it.

    The share that is done and what came of it, case by case.
    """
    had = {e.case for e in journal.rounds if (e.round.process, e.round.policy) == turn}
    waiting = {case: factors for case, factors in cases.items() if case not in had}
    task = new_task(study, "time", replace(session, process=turn.process), waiting, turn.policy)
    for message in run_cases(study, task, observer.debug):
        journal.append(message)
        had.add(message.case)
        round_ = message.round
        times = round_.samples("time")
        result = shown(median(times), "s") if times else "ok"
        told = round_.reason or round_.disturbance or result
        where = f"process {turn.process}, memory {turn.policy}"
        text = f"{factors_text(cases[message.case])}: {where}, {told}"
        yield len(had) / len({*cases, *had}), text
