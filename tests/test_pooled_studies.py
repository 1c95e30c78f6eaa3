"""Every study takes pooled runs without knowing of them: the committed records, each made twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from report.engine.computing import compute
from report.records.store import Stored
from report.statistics.estimates import Estimate
from tests.degraded import committed


def twice(stored: Stored) -> Stored:
    """The record with a second run that measured the same."""
    return replace(stored, others=(replace(stored, file=f"{stored.file}-twin"),))


@pytest.mark.parametrize("study", ["conv_scaling", "backend_speedup"])
def test_a_study_is_computed_from_pooled_runs_and_names_them(study: str) -> None:
    inputs = committed(study)
    files = {stored.file for stored in inputs.records}
    found = compute(study, replace(inputs, records=tuple(map(twice, inputs.records))))
    pooled = [v for v in found.values.values() if any("-twin" in s for s in v.sources)]
    # A study that only counts has no estimates.
    timed = any(isinstance(value.number, Estimate) for value in found.values.values())
    assert not (files and timed) or any(isinstance(value.number, Estimate) for value in pooled)
    assert all(s.removesuffix("-twin") in v.sources for v in pooled for s in v.sources)
