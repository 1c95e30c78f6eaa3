"""A busy loop on every core while a case is measured: its rounds are marked and measured again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import tiny_busy

from experiments import registry
from experiments.harness import quiet, rounds
from experiments.harness.journal import Finish, Journal, read_run_log
from experiments.harness.study import Session
from report.records.record import Case
from tests.experiments.conftest import Notes, make_header

pytestmark = pytest.mark.skipif(
    quiet.unavailable() is not None, reason="this system does not say what others use"
)


@pytest.fixture
def busy() -> Iterator[None]:
    """Two loops a core that do nothing but run, for some seconds."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def test_rounds_beside_busy_loops_are_marked_and_repeated(
    busy: None, tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_busy")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    study = tiny_busy.STUDY
    protocol = msgspec.structs.replace(study.full.protocol, processes={"default": 2}, budget_s=60.0)
    factors = {"size": 1}
    alone = Case(factors=factors, status="ok", reason=None, layers=(), series=())
    path = tmp_path / ".j.journal.jsonl"
    with Journal(path) as journal:
        journal.append(make_header(study, protocol=protocol, cases=(factors,)))
        journal.append(Finish(case=0, outcome=alone))
        run_log = read_run_log(path)
        rounds.measure(study, Session("cpu", protocol), run_log, journal, notes)
    (case,) = rounds.added([alone], run_log.rounds)
    assert case.status == "ok"
    assert any(round_.disturbance for round_ in case.rounds)
    assert len(case.rounds) > 2, "what was disturbed is measured again"
