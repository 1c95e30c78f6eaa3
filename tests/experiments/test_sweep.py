"""What is measured once: a case that fails is an outcome, and the others go on; without torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_failing

from experiments import registry
from experiments.harness import worker
from experiments.harness.journal import Journal, read_journal
from experiments.harness.run import _sweep
from experiments.harness.study import Session
from report.errors import MeasurementError
from report.records.record import Case
from tests.experiments.conftest import FOLDER, Notes, make_header


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_failing")
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))


def swept(path: Path, notes: Notes, *ways: str) -> tuple[Case, ...]:
    """The cases of these ways to end."""
    study = tiny_failing.STUDY
    cases = tuple({"way": way, "size": size} for size, way in enumerate(ways))
    with Journal(path, make_header(study, cases=cases)) as journal:
        _sweep(study, Session("cpu", study.full), journal, notes)
    return tuple(journal.finished[index] for index in range(len(cases)))


@pytest.mark.parametrize("forks", [True, False])
def test_failures_are_outcomes_and_the_sweep_goes_on(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch, forks: bool
) -> None:
    if forks and not worker.can_fork("cpu"):
        pytest.skip("cases share their process here")
    monkeypatch.setattr(worker, "can_fork", lambda device: forks)
    ways = ("well", *tiny_failing.REASONS, "well")
    cases = swept(tmp_path / ".j.journal.jsonl", notes, *ways)
    wanted = [("ok", ""), *tiny_failing.REASONS.values(), ("ok", "")]
    for case, (status, reason) in zip(cases, wanted, strict=True):
        assert case.status == status and reason in (case.reason or ""), case
        assert case.layers == (tiny_failing.LAYER,)
        assert bool(case.series) == (status == "ok")
    assert len(notes.ended) == len(cases)
    assert any("Traceback" in text for text in notes.printed)


def test_files_of_a_case_are_kept_once(tmp_path: Path, notes: Notes) -> None:
    path = tmp_path / ".j.journal.jsonl"
    swept(path, notes, "own file", "own file", "same file", "same file")
    files = read_journal(path).files
    assert {name: file.content for name, file in files.items()} == {
        "trace-0": b"\x00\xff",
        "trace-1": b"\x00\xff",
        "images.json": b"1,797 digits",
    }


def test_files_that_cannot_be_made_cost_nothing_else(tmp_path: Path, notes: Notes) -> None:
    path = tmp_path / ".j.journal.jsonl"
    (case,) = swept(path, notes, "no file")
    assert case.status == "ok" and case.series
    assert read_journal(path).unfiled == {"cases[0].files": "Memory ran out."}
    assert "leaves no file: Memory ran out." in notes.notes[-1]


def test_two_files_of_one_name_end_the_run(tmp_path: Path, notes: Notes) -> None:
    with pytest.raises(MeasurementError, match=r"^trace: way=other file, size=1 leaves"):
        swept(tmp_path / ".j.journal.jsonl", notes, "other file", "other file")


def test_a_worker_that_cannot_start_ends_the_run(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.STUDIES, "tiny", "no_such_study")
    with pytest.raises(MeasurementError, match=r"could not start: .*no_such_study"):
        swept(tmp_path / ".j.journal.jsonl", notes, "well")
