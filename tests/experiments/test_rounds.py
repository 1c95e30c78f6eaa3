"""Rounds: which process measures which case, for how long, and what becomes of a disturbed one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
import tiny_study
from hypothesis import given
from hypothesis import strategies as st

from experiments import registry
from experiments.harness import rounds, worker
from experiments.harness.journal import Ended, Finish, Journal
from experiments.harness.rounds import Turn, affordable, shuffled, to_repeat, turns
from experiments.harness.study import Session, Study
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
    shortest = min(cases, key=durations.__getitem__)
    assert spent > budget or counts[shortest] == processes or spent + durations[shortest] > budget


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

PROTOCOL = msgspec.structs.replace(
    tiny_study.STUDY.full.protocol, processes={"retained": 2, "default": 1}, budget_s=60.0
)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Study:
    """The timed tiny study, known under its name, in processes that can import it."""
    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_timed")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    import tiny_timed

    return tiny_timed.STUDY


def run(study: Study, path: Path, notes: Notes, sizes: Sequence[int] = (1, 2, 3)) -> list[Case]:
    """Measure in rounds, with a journal in ``path``."""
    header = make_header(study, protocol=PROTOCOL, cases=tuple({"size": size} for size in sizes))
    alone = [Case(factors=factors) for factors in header.cases]
    with Journal(path, header) as journal:
        for index, case in enumerate(alone):
            journal.append(Finish(case=index, outcome=case))
        rounds.measure(study, Session("cpu", PROTOCOL), journal, notes)
    return list(rounds.added(alone, journal.rounds))


def test_each_case_has_each_process_to_itself_with_its_policy_set(
    tmp_path: Path, timed: Study, notes: Notes
) -> None:
    cases = run(timed, tmp_path / ".j.journal.jsonl", notes)
    for case in cases:
        found = {(r.policy, r.process, r.status) for r in case.rounds}
        assert found == {("default", 1, "ok"), ("retained", 1, "ok"), ("retained", 2, "ok")}
        assert case.samples("time") == (float(case.factors["size"]),) * 2
    rounds_ = [r for case in cases for r in case.rounds]
    assert len(rounds_) == 9
    if worker.can_fork("cpu"):
        assert len({r.samples("step_loss")[0] for r in rounds_}) == 9
    told = {(r.policy, r.samples("train_loss")[0]) for r in rounds_}
    assert told == {("default", 0), ("retained", 1)}


@pytest.mark.parametrize("forks", [True, False])
def test_a_case_that_kills_its_process_takes_no_other_with_it(
    tmp_path: Path, timed: Study, notes: Notes, monkeypatch: pytest.MonkeyPatch, forks: bool
) -> None:
    if forks and not worker.can_fork("cpu"):
        pytest.skip("cases share their process here")
    monkeypatch.setattr(worker, "can_fork", lambda device: forks)
    path = tmp_path / ".j.journal.jsonl"
    cases = run(timed, path, notes, sizes=(1, tiny_study.CRASHING, 3))
    assert [case.status for case in cases] == ["ok", "failed", "ok"]
    assert "killed, most likely for lack of memory" in str(cases[1].reason)
    if not forks:  # the others are measured by a further process
        assert {len(case.rounds) for case in cases} == {3}


def test_disturbed_rounds_are_kept_marked_and_repeated_as_often_as_allowed(
    tmp_path: Path, timed: Study, notes: Notes
) -> None:
    cases = run(timed, tmp_path / ".j.journal.jsonl", notes, sizes=(1, tiny_study.LOUD))
    quiet, loud = cases
    assert {r.disturbance for r in quiet.rounds} == {None}
    assert len(loud.rounds) > 3
    assert all(r.disturbance == "a test" for r in loud.rounds)
    assert loud.samples("time"), "what was disturbed throughout is still there"
    assert any("again" in note for note in notes.notes)
