"""Rounds: which process measures which case, for how long, and what becomes of a disturbed one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import tiny_study
from hypothesis import given
from hypothesis import strategies as st

from experiments import registry
from experiments.harness import rounds, worker
from experiments.harness.journal import Ended, Finish, Journal
from experiments.harness.rounds import Turn, affordable, shuffled, to_repeat, turns
from experiments.harness.study import Session
from report.records.record import Case, Policy, Round
from tests.experiments.conftest import Notes, make_header

# ---------------------------------------------------------------------------------------- planning


@given(st.dictionaries(st.sampled_from(["retained", "default", "jemalloc"]), st.integers(1, 9)))
def test_every_policy_gets_its_processes_and_none_stands_apart(planned: dict[Policy, int]) -> None:
    found = turns(planned)
    assert Counter(turn.policy for turn in found) == Counter(planned)
    for policy, n in planned.items():
        assert [t.process for t in found if t.policy == policy] == list(range(1, n + 1))
    assert [t.process for t in found] == sorted(t.process for t in found)


@given(st.sets(st.integers(0, 50)), st.integers(0, 5), st.integers(1, 9))
def test_the_order_of_a_process_comes_from_the_seed(
    cases: set[int], seed: int, process: int
) -> None:
    turn = Turn(process, "retained")
    order = shuffled(cases, seed, turn)
    assert sorted(order) == sorted(cases)
    assert shuffled(sorted(cases, reverse=True), seed, turn) == order


def ended(
    case: int,
    seconds: float,
    process: int = 1,
    policy: Policy = "retained",
    disturbance: str | None = None,
    reason: str | None = None,
) -> Ended:
    found = Round(
        process=process,
        policy=policy,
        status="failed" if reason else "ok",
        reason=reason,
        disturbance=disturbance,
        series={} if reason else {"time": (seconds,)},
    )
    return Ended(case=case, round=found, seconds=seconds)


@given(st.lists(st.floats(0.1, 50), min_size=1, max_size=9), st.integers(1, 9), st.floats(1, 900))
def test_all_processes_stay_in_the_budget_and_leave_no_case_out(
    durations: list[float], processes: int, budget: float
) -> None:
    cases, log, spent = range(len(durations)), list[Ended](), 0.0
    for process in range(1, processes + 1):
        left = processes + 1 - process
        for case in affordable(cases, log, "retained", left, budget - spent):
            log.append(ended(case, durations[case], process))
            spent += durations[case]
    counts = Counter(e.case for e in log)
    assert set(counts) == set(cases)
    assert spent <= max(budget, sum(durations)) * (1 + 1e-9)
    if processes * sum(durations) <= budget * (1 - 1e-9):
        assert set(counts.values()) == {processes}


def test_a_long_case_is_measured_by_fewer_processes() -> None:
    log: list[Ended] = []
    for process in range(1, 7):
        left = 80.0 - sum(e.seconds for e in log)
        for case in affordable(range(3), log, "retained", 7 - process, left):
            log.append(ended(case, (1.0, 1.0, 30.0)[case], process))
    assert Counter(e.case for e in log) == {0: 6, 1: 6, 2: 2}


def test_a_disturbed_case_is_repeated_until_a_quiet_process_has_made_up_for_it() -> None:
    log = [ended(0, 1.0), ended(0, 1.0, 2, disturbance="somebody"), ended(1, 1.0)]
    assert to_repeat((0, 1), log, "retained", planned=2) == (0,)
    again = [*log, ended(0, 1.0, 3, disturbance="still")]
    assert to_repeat((0, 1), again, "retained", planned=2) == (0,)
    made_up = [*again, ended(0, 1.0, 4)]
    assert to_repeat((0, 1), made_up, "retained", planned=2) == ()
    assert to_repeat((0, 1), log, "default", planned=2) == ()


def test_a_case_whose_rounds_all_failed_has_their_outcome() -> None:
    case = Case(factors={"size": 1})
    (lost,) = rounds.added(
        [case], [ended(0, 1.0, reason="It broke."), ended(0, 1.0, 2, reason="x")]
    )
    assert (lost.status, lost.reason) == ("failed", "It broke.")
    (kept,) = rounds.added([case], [ended(0, 1.0, reason="It broke."), ended(0, 1.0, 2)])
    assert (kept.status, kept.samples("time")) == ("ok", (1.0,))


# --------------------------------------------------------------------------------------- measuring


@pytest.mark.parametrize("forks", [True, False])
def test_each_process_measures_each_case_and_no_case_takes_another_with_it(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch, forks: bool
) -> None:
    if forks and not worker.can_fork("cpu"):
        pytest.skip("cases share their process here")
    monkeypatch.setattr(worker, "can_fork", lambda device: forks)
    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_timed")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # of processes, too
    sizes = (1, tiny_study.CRASHING, tiny_study.LOUD)
    study = registry.load("tiny")
    header = make_header(study, cases=tuple({"size": size} for size in sizes))
    alone = [Case(factors=factors) for factors in header.factors]
    with Journal(tmp_path / ".j.journal.jsonl", header) as journal:
        for index, case in enumerate(alone):
            journal.append(Finish(case=index, outcome=case))
        rounds.measure(study, Session("cpu", study.full), journal, notes)
    plain, crashed, loud = rounds.added(alone, journal.rounds)

    assert (crashed.status, {r.status for r in crashed.rounds}) == ("failed", {"failed"})
    assert "killed, most likely for lack of memory" in str(crashed.reason)
    assert (plain.status, loud.status) == ("ok", "ok")
    planned = {("default", 1), ("retained", 1), ("retained", 2)}
    assert {(r.policy, r.process) for r in plain.rounds} == planned
    assert plain.samples("time") == (1.0,) * 2
    told = {(r.policy, r.samples("train_loss")[0]) for r in plain.rounds}
    assert told == {("default", 0), ("retained", 1)}
    # Cases that need no import find none, with forks and without.
    well = [r.samples("step_loss")[0] for case in (plain, loud) for r in case.rounds]
    assert len(set(well)) == len(well)

    # What was disturbed is kept, marked, and repeated as often as allowed.
    assert {r.disturbance for r in plain.rounds} == {None}
    assert {r.disturbance for r in loud.rounds} == {"a test"}
    assert len(loud.rounds) == 3 + min(2, rounds.REPEATS) + min(1, rounds.REPEATS)
    assert set(loud.samples("time")) == {float(tiny_study.LOUD)}
    assert any("again" in note for note in notes.notes)
