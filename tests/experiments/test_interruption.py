"""Runs that end early: what is finished is kept, resumed, closed, and never doubled."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from experiments import registry
from experiments.harness import counting, environment, runtime
from experiments.harness.journal import read_journal
from experiments.harness.request import Request
from experiments.harness.run import StoppedError, close, run
from report.errors import MeasurementError
from report.records.pooling import missing_shards, runs_of, whole
from report.records.record import Record
from report.records.store import read_study
from tests.experiments.conftest import FOLDER, Driver, Notes, finished, make_environment

LIMIT_S = 120
Measure = Callable[..., list[str]]


def record_in(data: Path, *missing: int) -> Record:
    """The only run, of all its shards but for those ``missing``."""
    (run,) = runs_of(read_study("tiny", data))
    assert missing_shards(run) == missing
    assert list((data / "tiny").glob(".*.journal.jsonl")) == []
    return whole(run).record


# ------------------------------------------------------------------ real signals to real processes


def held_at(driver: Driver, size: str, *words: str, kept: int) -> subprocess.Popen[str]:
    """A run that waits in the case ``size``, with ``kept`` further cases on the disk."""
    before, already = driver.finished(), len(driver.measured())
    process = driver.start(*words, hold=size)
    deadline = time.monotonic() + LIMIT_S
    while size not in driver.measured()[already:] or driver.finished() < before + kept:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the case was never reached"
        time.sleep(0.02)
    return process


def test_a_run_goes_on_after_each_signal(driver: Driver) -> None:
    words: tuple[str, ...] = ()
    for number, code, size, kept, of_all in (
        (signal.SIGINT, 130, "2", 1, 1),
        (signal.SIGTERM, 143, "4", 2, 3),
        (signal.SIGKILL, -9, "6", 2, 5),
    ):
        process = held_at(driver, size, *words, kept=kept)
        process.send_signal(number)
        returned, messages = finished(process)
        assert returned == code and "Traceback" not in messages
        if number != signal.SIGKILL:
            assert f"{of_all} of 6 cases are kept (close tiny makes them a record" in messages
            assert "continue with: python -m experiments run tiny" in messages
            assert messages.rstrip().endswith("--resume")
        assert read_study("tiny", driver.data) == () and len(driver.journals()) == 1
        words = ("--resume",)
    with driver.journals()[0].open("ab") as stream:
        stream.write(b'{"kind":"fin')  # as if it had been cut off while writing
    returned, messages = finished(driver.start("--resume"))
    assert returned == 0, messages
    record = record_in(driver.data)
    ended = [(case.factors["size"], case.status) for case in record.cases]
    assert ended == [(size, "ok") for size in range(1, 7)]
    assert "--resume" not in record.command
    assert driver.measured() == ["1", "2", "2", "3", "4", "4", "5", "6", "6"]


# ---------------------------------------------------------------- the same without a new process


class Stopping(Notes):
    """Interrupts its run as soon as so many cases have ended."""

    def __init__(self, after: int | None) -> None:
        super().__init__()
        self.after = after

    def begin(self, text: str) -> None:
        if self.after == 0:
            raise KeyboardInterrupt

    def progressed(self, text: str, done: float) -> None:
        super().progressed(text, done)
        if len(self.ended) == self.after:
            raise KeyboardInterrupt


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Measures a shard of two of the tiny study, and tells what it said."""
    monkeypatch.setattr(runtime, "start_torch", lambda device, threads: sys)
    monkeypatch.setattr(environment, "gather", lambda *_, name: make_environment(name=name))
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    monkeypatch.setenv("TINY_HELD", str(tmp_path))

    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_timed")

    def measured(shard: str, stop: int | None = None, **asked: Any) -> list[str]:
        notes = Stopping(stop)
        request = Request("tiny", tmp_path, threads=1, shard=(int(shard[0]), 2), **asked)
        if stop is None:
            run(request, notes)
            return notes.notes
        with pytest.raises(StoppedError) as stopped:
            run(request, notes)
        return [str(stopped.value)]

    return measured


def damaged(folder: Path) -> str:
    """Damage the only journal, without loss; what is said of it when it is read."""
    (path,) = (folder / "tiny").glob(".*.journal.jsonl")
    with path.open("ab") as stream:
        stream.write(b"\0\n{\n")
    left = "damaged lines left out: 2; what they held counts as not measured"
    return f"{path.name}: {left}."


def test_an_interrupted_shard_goes_on_as_that_shard(tmp_path: Path, measure: Measure) -> None:
    said = measure(stop=1, shard="2/2")[-1]
    assert "1 of 3 cases are kept" in said and "--shard 2/2" in said
    assert "…" not in said and said.endswith(f"--records {tmp_path} --resume")
    with pytest.raises(MeasurementError, match=r"shard\.number 2, now 1"):
        measure(shard="1/2", resume=True)
    for shard, notes in (
        ("2/2", damaged(tmp_path)),
        ("1/2", ""),
        ("2/2", "Already measured; skipping."),
    ):
        assert notes in ["", *measure(shard=shard, if_missing=True)]
    record = record_in(tmp_path)
    assert [case.samples("allocated_peak") for case in record.cases] == [(n,) for n in range(1, 7)]


def test_runs_whose_machines_are_gone_become_records_of_what_they_measured(
    tmp_path: Path, measure: Measure, notes: Notes
) -> None:
    measure(stop=2, shard="1/2")
    (path,) = (tmp_path / "tiny").glob(".*.journal.jsonl")
    measure(stop=0, shard="2/2")  # measured nothing, so that its journal is gone
    with (
        read_journal(path),
        pytest.raises(MeasurementError, match=r"that no process is at \(found \.2"),
    ):
        close("tiny", tmp_path, notes)
    damage = damaged(tmp_path)
    last_outcome = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    assert len(close("tiny", tmp_path, notes)) == 1
    assert notes.notes == [damage]
    record = record_in(tmp_path, 2)
    found = [case.samples("allocated_peak") for case in record.cases]
    assert found == [(1,), (), (3,), (), (), ()]
    assert record.cases[1].reason == "This was left to shard 2 of 2."
    assert record.cases[4].reason == "The run was ended before this was measured."
    assert record.finished == last_outcome.strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = "the run was ended before this was measured"
    assert record.environment.missing["ceilings.after"] == ended
    with pytest.raises(MeasurementError, match="tiny has no unfinished run in"):
        close("tiny", tmp_path, notes)


@pytest.mark.parametrize(
    ("shard", "settings", "kept"),
    [
        ("1/2", (), "3 of 3 cases are kept (close tiny makes them a record as they are); "),
        ("2/2", ("size=1",), "0 of 0 cases are kept; "),  # which close could not use
    ],
)
def test_an_error_leaves_the_command_that_goes_on_whole(
    tmp_path: Path,
    measure: Measure,
    monkeypatch: pytest.MonkeyPatch,
    shard: str,
    settings: tuple[str, ...],
    kept: str,
) -> None:
    def count(*_: object) -> None:
        raise MeasurementError(f"The counter broke: {'x' * 900}.")

    monkeypatch.setattr(counting, "count", count)
    with pytest.raises(MeasurementError, match=r"^The counter broke: x+…x+\. ") as raised:
        measure(shard=shard, settings=settings)
    said = str(raised.value)
    assert f" {kept}continue with: python -m experiments run tiny --" in said
    assert said.endswith(f" --records {tmp_path} --resume")
