"""Measure times in rounds: in each round, a new process times all cases in a random order.

Calls of one process resemble each other more than calls of several processes, since addresses and
other random choices are made once per process.  So the process is the unit of statistics, and
several processes measure every case.  Each round has a memory policy: the C library keeps freed
memory, or returns it to the system.  Random orders spread slow changes of the machine over all
cases; rounds under different memory policies alternate.  If other programs disturbed a case and
time remains, a further process measures the case again; the record contains both rounds.

A claim is a statement of a paper that records are tested against.  A claim that compares two
policies computes one ratio of times per pair of processes, which have the same number under both
policies.  The number of pairs is chosen before the first measurement; further pairs come last.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from random import Random
from statistics import median
from typing import Final, NamedTuple

import msgspec

from experiments.harness.journal import Journal, RoundResult
from experiments.harness.processes import measure_ceilings, new_task, run_cases
from experiments.harness.progress import Observer, measured_text
from experiments.harness.study import Experiment, Session
from report.core.records.pooling import measures_process
from report.core.records.record import Factors, Policy
from report.instruments import gates

#: Limit on the processes per policy that measure disturbed cases again; the number of planned
#: processes is another limit.
MAX_REPEATS: Final = 12
#: Additional time for measuring disturbed cases again, as a share of the planned time.
REPEAT_SHARE: Final = 0.25
#: Share of the progress for the planned processes; the rest is for repeats.
_PLANNED_SHARE: Final = 1 / (1 + REPEAT_SHARE)
#: How often the ceilings (peak rates) may be measured again because a case was faster.
_MAX_RECHECKS: Final = 3


class RoundId(NamedTuple):
    """Memory policy of a round, and the number of its process among the policy's processes."""

    process: int
    policy: Policy


def plan_rounds(processes: Mapping[Policy, int]) -> tuple[RoundId, ...]:
    """List all rounds in order; policies alternate, in reverse order for every second process."""
    rounds: list[RoundId] = []
    for process in range(1, max(processes.values(), default=0) + 1):
        rounds_of_process = []
        for policy, number in processes.items():
            if process <= number:
                rounds_of_process.append(RoundId(process, policy))
        rounds += rounds_of_process if process % 2 else rounds_of_process[::-1]
    return tuple(rounds)


def shuffle_cases(cases: Iterable[int], seed: int, round_id: RoundId) -> tuple[int, ...]:
    """Return a round's cases in a random order, which depends only on seed and round."""
    order = sorted(cases)
    Random(f"{seed} {round_id.policy} {round_id.process}").shuffle(order)
    return tuple(order)


def affordable_cases(
    cases: Iterable[int],
    results: Sequence[RoundResult],
    policy: Policy,
    rounds_left: int,
    seconds_left: float,
) -> set[int]:
    """Select the cases that a round can measure in its share of the remaining time.

    ``rounds_left`` is the number of this round and all later rounds.  Cases not yet measured under
    ``policy`` are always selected.  The other cases are selected while the time suffices, in the
    order of the time already spent on each, so that long cases get fewer rounds.
    """
    spent = defaultdict[int, float](float)  # time of each case in all rounds (s)
    latest_duration: dict[int, float] = {}
    measured: set[int] = set()
    for result in results:
        spent[result.case] += result.seconds
        latest_duration[result.case] = result.seconds
        if result.round.policy == policy:
            measured.add(result.case)
    budget, selected = seconds_left / rounds_left, set()
    for case in sorted(cases, key=lambda case: (case in measured, spent[case])):
        duration = latest_duration.get(case, 0.0)
        if case not in measured or duration <= budget:
            budget -= duration
            selected.add(case)
    return selected


def disturbed_cases(
    cases: Iterable[int], results: Sequence[RoundResult], policy: Policy, planned: int
) -> tuple[int, ...]:
    """Select the cases whose planned rounds under ``policy`` outnumber the undisturbed rounds.

    Processes with numbers above ``planned`` have measured disturbed cases again.
    """
    missing = Counter[int]()  # planned rounds minus undisturbed rounds of each case
    for result in results:
        if result.round.policy == policy and result.round.status == "ok":
            if result.round.process <= planned:
                missing[result.case] += 1
            if result.round.disturbance is None:
                missing[result.case] -= 1
    return tuple(case for case in cases if missing[case] > 0)


def measure(study: Experiment, session: Session, journal: Journal, observer: Observer) -> None:
    """Measure the rounds that the journal lacks; append each result before the next case."""
    protocol, shard = journal.header.protocol, journal.header.shard
    cases = _timed_cases(study, journal)
    processes = study.processes(protocol, journal.header.pairs)
    planned, rounds = plan_rounds(protocol.processes), plan_rounds(processes)
    assigned = [round_id for round_id in rounds if measures_process(shard, round_id.process)]
    if not cases or not assigned:
        return
    full_budget = inf if protocol.budget_s is None else protocol.budget_s
    budget = full_budget * len(assigned) / len(rounds)
    observer.begin(f"Measuring {len(cases)} cases in {len(assigned)} processes.", "times")

    def seconds_left(share: float = 1.0) -> float:
        """Return the seconds that remain of ``share`` times the budget."""
        return share * budget - sum(result.seconds for result in journal.rounds)

    def run(round_id: RoundId, selected: Iterable[int], start: float, share: float) -> None:
        """Measure a round, while the printed progress grows from ``start`` by ``share``."""
        order = shuffle_cases(selected, protocol.seed, round_id)
        round_cases = {case: cases[case] for case in order}
        earlier = len(journal.rounds)
        for done, text in _run_round(round_id, round_cases, study, session, journal, observer):
            observer.progressed(text, start + share * done)
        recheck_ceilings(study, session, journal, journal.rounds[earlier:], observer)

    for number, round_id in enumerate(assigned):  # the rounds of this shard (part of the run)
        policy, remaining = round_id.policy, assigned[number:]
        eligible = [case for case in cases if policy in study.policies(cases[case], protocol)]
        if round_id in planned:  # rounds for additional pairs come last, in the time that is left
            remaining = [later for later in remaining if later in planned]
        seconds, rounds_left = seconds_left(), len(remaining)
        selected = affordable_cases(eligible, journal.rounds, policy, rounds_left, seconds)
        share = _PLANNED_SHARE / len(assigned)
        run(round_id, selected, share * number, share)
    repeats = []  # possible further rounds, numbered after the planned processes of their policy
    for policy, count in processes.items():
        limit = min(MAX_REPEATS, sum(round_id.policy == policy for round_id in assigned))
        for process in range(count + 1, count + 1 + limit):
            repeats.append(RoundId(process, policy))
    for number, round_id in enumerate(repeats):
        planned_processes = processes[round_id.policy]
        disturbed = disturbed_cases(cases, journal.rounds, round_id.policy, planned_processes)
        if disturbed and seconds_left(1 + REPEAT_SHARE) > 0:
            observer.note(f"Measuring {len(disturbed)} disturbed cases again.")
            share = (1 - _PLANNED_SHARE) / len(repeats)
            run(round_id, disturbed, _PLANNED_SHARE + share * number, share)


def recheck_ceilings(
    study: Experiment,
    session: Session,
    journal: Journal,
    results: Iterable[RoundResult],
    observer: Observer,
) -> None:
    """Measure the peak rates of arithmetic again if a case was faster than the highest peak."""
    peak_rate = gates.best_arithmetic_rate(journal.ceilings.ceilings if journal.ceilings else ())
    if peak_rate is None or journal.ceiling_rechecks >= _MAX_RECHECKS:
        return
    fastest = 0.0
    for result in results:
        case = journal.finished_cases.get(result.case)
        if case is not None:
            timed = msgspec.structs.replace(case, rounds=(result.round,))
            fastest = max(fastest, gates.forward_rate(timed))
    if fastest > peak_rate:
        journal.append(measure_ceilings(study, session, "during", observer.note))


def _timed_cases(study: Experiment, journal: Journal) -> dict[int, Factors]:
    """Select the cases to time; skip cases whose memory this run could not measure."""
    cases = {}
    for index, factors in enumerate(journal.header.factors):
        finished = journal.finished_cases.get(index)  # None: another part of the run measures it
        can_run = finished is None or finished.status == "ok"
        if can_run and study.policies(factors, journal.header.protocol):
            cases[index] = factors
    return cases


def _run_round(
    round_id: RoundId,
    cases: Mapping[int, Factors],
    study: Experiment,
    session: Session,
    journal: Journal,
    observer: Observer,
) -> Iterator[tuple[float, str]]:
    """Measure the cases of one round that are not yet in the journal.

    After each case, yields the finished share of all cases and a text about the case.
    """
    finished = set()
    for result in journal.rounds:
        if (result.round.process, result.round.policy) == round_id:
            finished.add(result.case)
    unmeasured = {case: factors for case, factors in cases.items() if case not in finished}
    session = replace(session, process=round_id.process)
    task = new_task(study, "time", session, unmeasured, round_id.policy)
    for result in run_cases(study, task, observer.debug):
        journal.append(result)
        finished.add(result.case)
        times = result.round.samples("time")
        outcome = measured_text(median(times), "s") if times else "ok"
        outcome = result.round.reason or result.round.disturbance or outcome
        case = study.case_name(cases[result.case])
        text = f"{case}: process {round_id.process}, memory {round_id.policy}, {outcome}"
        yield len(finished) / len({*cases, *finished}), text
