"""Every case of every full plan can be asked whether it is counted, on whatever device."""

from __future__ import annotations

import pytest
from conftest import make_environment, make_header

from experiments import registry
from experiments.harness import counting
from experiments.harness.journal import RunLog
from experiments.harness.selection import select
from report.records.record import Case


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("counters", ["auto", "all"])
@pytest.mark.parametrize("name", registry.STUDIES)
def test_a_finished_run_of_every_study_is_asked_for_its_counts(
    name: str, counters: str, device: str
) -> None:
    study = registry.load(name)
    cases = select(study, quick=False).cases
    header = make_header(
        study, cases=cases, counters=counters, environment=make_environment(device=device)
    )
    ended = {
        index: Case(factors=factors, status="ok", reason=None, layers=(), series=())
        for index, factors in enumerate(cases)
    }
    outcome = counting.kept(study, RunLog(header, valid_bytes=0, finished=ended), "it ended")
    assert not outcome.series
    assert set(outcome.missing.values()) <= {"it ended"}
