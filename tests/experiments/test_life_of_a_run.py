"""A run from the command line to the record: failed cases, interruption, resuming, closing."""

import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiny_failing
import tiny_study
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_failing import FILES, LAYER, REASONS

from experiments import registry
from experiments.__main__ import main
from experiments.harness import journal as journals
from experiments.harness import worker
from experiments.harness.journal import CaseResult, Ceilings, Journal, new_journal, read_journal
from experiments.harness.progress import Observer, Stage
from experiments.harness.run import close
from experiments.machine import environment, runtime
from report.core.errors import MeasurementError
from report.core.records.pooling import missing_shards, runs_of, why_not_pooled
from report.core.records.record import Case, Environment, Record
from report.core.records.store import read_attachments, read_records
from tests import factory
from tests.experiments.conftest import FOLDER, Driver, make_environment, make_header, wait_for

#: Function that runs a command line in this process; returns the exit code and all output.
Command = Callable[..., tuple[int, str]]


def record_of_only_run(data: Path, missing: tuple[int, ...] = ()) -> Record:
    """Return the record of the only run; check its ``missing`` shards, and that no journal exists.

    The shards of one run are pooled into one record.
    """
    (run,) = runs_of(read_records("tiny", data))
    assert missing_shards(run) == missing
    assert list((data / "tiny").glob(".*.journal.jsonl")) == []
    return run.record


class Interrupter(Observer):
    """Interrupts the run after ``stop`` cases."""

    def __init__(self, stop: int | None, debug: bool = False) -> None:
        super().__init__(debug=debug)
        self.stop, self.ended_cases = stop, 0

    def begin(self, text: str, step: Stage = "memory") -> None:
        super().begin(text, step)
        if self.ended_cases == self.stop:
            raise KeyboardInterrupt

    def progressed(self, text: str, done: float) -> None:
        self.ended_cases += 1
        super().progressed(text, done)
        if self.ended_cases == self.stop:
            raise KeyboardInterrupt


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return a function that runs a command on a study, and interrupts it after ``stop`` cases."""

    def gather(torch: Any, device: str, threads: int, name: str | None) -> Environment:
        return make_environment(name=name, threads=threads)

    monkeypatch.setattr(runtime, "start_torch", lambda device, threads: sys)
    monkeypatch.setattr(environment, "gather", gather)
    monkeypatch.setattr("experiments.commands.status.queued_jobs", lambda study: {})
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    monkeypatch.setenv("TINY_HELD", str(tmp_path))

    def run(words: str, study: str = "tiny_timed", stop: int | None = None) -> tuple[int, str]:
        monkeypatch.setitem(registry.STUDIES, "tiny", study)
        monkeypatch.setattr("experiments.__main__.Observer", partial(Interrupter, stop))
        code = main([*shlex.split(words), "--records", str(tmp_path)])
        return code, "".join(capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("forks", "words"), [(True, ""), (False, "--set way=well,raise,die,exit,'well again'")]
)
def test_a_failed_case_is_recorded_and_the_run_continues(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, forks: bool, words: str
) -> None:
    """With ``forks``, each case runs in a child process; the factor ``way`` is the way to fail."""
    if forks and not worker.can_fork("cpu"):
        pytest.skip("cases share their process here")
    monkeypatch.setattr(worker, "can_fork", lambda device: forks)
    code, output = command(f"run tiny --threads 1 --debug {words}", "tiny_failing")
    assert code == 0 and "Traceback" in output
    (stored,) = read_records("tiny", tmp_path)
    ways = [str(case.factors["way"]) for case in stored.record.cases]
    for way, case in zip(ways, stored.record.cases, strict=True):
        status, reason = REASONS.get(way, ("ok", ""))
        assert (case.status, case.layers) == (status, (LAYER,)), way
        assert reason in (case.reason or "") and bool(case.series) == (status == "ok"), way
    if not forks:
        assert ways == ["die", "exit", "raise", "well", "well again"]
        return
    assert ways == ["well", *REASONS, *FILES, "well again"]
    assert "way=no file writes no file: Memory ran out." in output
    missing_file = f"cases[{ways.index('no file')}].files"
    assert stored.record.environment.missing[missing_file] == "Memory ran out."
    assert read_attachments(stored, ("*",), tmp_path) == {
        "images.json": b"1,797 digits",
        "trace-ano": b"\x00\xff",
        "trace-own": b"\x00\xff",
    }


def test_an_error_of_a_study_itself_ends_the_run(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    # Processes that the run starts cannot import this module.
    monkeypatch.setitem(sys.modules, "only_here", tiny_failing)
    (tmp_path / "ends_at_once.py").write_text("import os; os._exit(0)", "utf-8")
    (tmp_path / "ends.py").write_text("exit(0)", "utf-8")
    clash = "'way=clashing file,clashing file again'"
    for study, words, message in (
        ("ends_at_once", "", "tiny: its code ended in SystemExit: "),
        ("ends", "", "tiny: its code ended in SystemExit: "),
        ("tiny_failing", f"--set {clash}", "trace: way=clashing file again writes another file of"),
        ("only_here", "", "could not start: ModuleNotFoundError: No module named 'only_here'"),
    ):
        code, output = command(f"run tiny --threads 1 {words}", study)
        assert code == 1 and message in output


def run_until(driver: Driver, size: str, *words: str, saved: int) -> subprocess.Popen[str]:
    """Start a run; return when the run waits in case ``size`` and has saved ``saved`` new cases."""
    earlier, earlier_saved = len(driver.measured_sizes()), driver.saved_cases()
    process = driver.start(*words, hold=size)
    factory.wait_until(lambda: size in driver.measured_sizes()[earlier:], process)
    factory.wait_until(lambda: driver.saved_cases() >= earlier_saved + saved, process)
    return process


def test_a_run_can_be_resumed_after_each_signal(driver: Driver) -> None:
    """Cases that were interrupted (sizes 2, 4 and 6) are measured twice, all others once."""
    words: tuple[str, ...] = ()
    for signal_number, exit_code, size, saved, saved_in_all in (
        (signal.SIGINT, 130, "2", 1, 1),
        (signal.SIGTERM, 143, "4", 2, 3),
        (signal.SIGKILL, -9, "6", 2, 5),
    ):
        process = run_until(driver, size, *words, saved=saved)
        process.send_signal(signal_number)
        returned, messages = wait_for(process)
        assert returned == exit_code and "Traceback" not in messages
        if signal_number != signal.SIGKILL:
            assert f"{saved_in_all} of 6 cases are saved (close tiny writes a record" in messages
            assert "continue with: python -m experiments run tiny" in messages
            assert messages.endswith("--resume\nInterrupted.\n")
        assert read_records("tiny", driver.data) == () and len(driver.journals()) == 1
        words = ("--resume",)
    with driver.journals()[0].open("ab") as stream:
        stream.write(b'{"kind":"fin')  # a line that was cut off while being written
    returned, messages = wait_for(driver.start("--resume"))
    assert returned == 0, messages
    record = record_of_only_run(driver.data)
    cases = [(case.factors["size"], case.status) for case in record.cases]
    assert cases == [(size, "ok") for size in range(1, 7)]
    assert "--resume" not in record.command
    assert driver.measured_sizes() == ["1", "2", "2", "3", "4", "4", "5", "6", "6"]


def test_a_resumed_run_has_the_chosen_pairs_and_is_pooled(tmp_path: Path, command: Command) -> None:
    """The plan has two processes that keep freed memory, and one with the default allocator."""
    assert command("run tiny --threads 1 --set size=1 --pairs 2", stop=1)[0] == 130
    for words in ("--resume", ""):
        assert command(f"run tiny --threads 1 --set size=1 {words}")[0] == 0
    with_pairs, as_planned = (stored.record for stored in read_records("tiny", tmp_path))
    policies = Counter(round_.policy for round_ in with_pairs.cases[0].rounds)
    assert policies == {"retained": 2, "default": 2}
    policies = Counter(round_.policy for round_ in as_planned.cases[0].rounds)
    assert policies == {"retained": 2, "default": 1}
    assert with_pairs.command[-4:] == ("--pairs", "2", "--set", "size=1")
    assert why_not_pooled(with_pairs, as_planned) is None


def damage(path: Path) -> str:
    """Add two damaged lines and a line without end; return the message that reading must print."""
    with path.open("ab") as stream:
        stream.write(b"\0\n{\ncut o")
    return f"{path.name}: 2 damaged lines; their cases are run again."


def test_an_interrupted_shard_can_be_resumed(tmp_path: Path, command: Command) -> None:
    code, output = command("run tiny --threads 1 --shard 2/2", stop=1)
    assert code == 130 and "1 of 3 cases are saved" in output
    assert f" --threads 1 --shard 2/2 --records {tmp_path} --resume\n" in output
    code, output = command("run tiny --threads 1 --shard 1/2 --resume")
    assert code == 1 and "shard.number was 2 and is now 1" in output
    rerun = f"python -m experiments run tiny --device cpu --threads 1 --records {tmp_path} --shard"
    (path,) = (tmp_path / "tiny").iterdir()
    assert command("status tiny")[1].splitlines()[1:] == [
        "  shard 1/2  missing",
        f"  shard 2/2  unfinished  1 measurements in  {path.name}",
        *("Next:", f"  {rerun} 1/2 --if-missing", f"  {rerun} 2/2 --if-missing"),
    ]
    already_measured = "Already measured; skipping."
    for shard, expected in (("2/2", damage(path)), ("1/2", ""), ("2/2", already_measured)):
        code, output = command(f"run tiny --threads 1 --shard {shard} --if-missing")
        assert code == 0 and expected in output
    record = record_of_only_run(tmp_path)
    assert [case.samples("allocated_peak") for case in record.cases] == [(n,) for n in range(1, 7)]


def test_runs_of_lost_machines_become_records(tmp_path: Path, command: Command) -> None:
    """Nobody can resume such a run; ``close`` writes a record of the finished cases."""
    command("run tiny --threads 1 --shard 1/2", stop=2)
    (path,) = (tmp_path / "tiny").glob(".*.journal.jsonl")
    _, output = command("run tiny --threads 1 --shard 2/2", stop=0)
    assert "nothing was saved" in output and len(list((tmp_path / "tiny").iterdir())) == 1
    with read_journal(path):  # while a process writes the journal
        code, output = command("close tiny")
        assert code == 1 and f"process has ended (journals: {path.name})" in output
    with pytest.raises(MeasurementError, match="whose process has ended"):
        close("tiny", tmp_path, Observer(), [path])
    message, last_outcome = damage(path), datetime.fromtimestamp(path.stat().st_mtime, UTC)
    code, output = command("close tiny")
    assert code == 0 and message in output
    # Shard 1 has the odd sizes; the run stopped after the second of them.
    record = record_of_only_run(tmp_path, missing=(2,))
    peaks = [case.samples("allocated_peak") for case in record.cases]
    assert peaks == [(1,), (), (3,), (), (), ()]
    assert record.cases[1].reason == "This was left to shard 2 of 2."
    assert record.cases[4].reason == "The run was ended before this was measured."
    reason = "the run was ended before this was measured"
    assert record.environment.missing["ceilings.after"] == reason
    assert record.finished == last_outcome.strftime("%Y-%m-%dT%H:%M:%SZ")
    code, output = command("close tiny")
    assert code == 1 and "tiny has no unfinished run in" in output


HEADER = make_header(tiny_study.STUDY)
CASES = tuple(Case(factors={"size": size}) for size in range(3))


@pytest.fixture
def saved_journal(tmp_path: Path) -> Journal:
    """Write the journal of a run with three finished cases."""
    with new_journal(tmp_path, HEADER) as journal:
        journal.append(Ceilings(reason="none asked for"))
        for index, case in enumerate(CASES):
            journal.append(CaseResult(case=index, outcome=case))
    return journal


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_truncated_journal_keeps_a_prefix_of_cases(saved_journal: Journal, cut: int) -> None:
    content = saved_journal.path.read_bytes()
    header_size = content.index(b"\n") + 1
    path = saved_journal.path.with_name("cut")
    path.write_bytes(content[: header_size + cut % (len(content) - header_size)])
    journal = read_journal(path)
    count = len(journal.finished_cases)
    assert journal.finished_cases == dict(enumerate(CASES[:count]))
    with journal:
        journal.append(CaseResult(case=2, outcome=CASES[2]))
    assert read_journal(path).finished_cases == journal.finished_cases
    assert path.read_bytes().startswith(content[:header_size])


@pytest.mark.parametrize("line", [1, 2, 4, 5])
def test_a_damaged_line_loses_no_other_line(saved_journal: Journal, line: int) -> None:
    garbage = b"\0" * 512 + b'\n\xff\r\n\n{}\n{"kind":"x"}\n{"kind":"fi'
    repeated_key = b'{"kind":"finish","case":9,"case":0,"outcome":{"factors":{"size":7}}}\n'
    lines = saved_journal.path.read_bytes().split(b"\n")
    lines.insert(line, repeated_key + garbage)
    saved_journal.path.write_bytes(b"\n".join(lines))
    with read_journal(saved_journal.path) as journal:
        assert (journal.header, journal.ceilings) == (HEADER, Ceilings(reason="none asked for"))
        assert journal.finished_cases == dict(enumerate(CASES))
        journal.append(CaseResult(case=7, outcome=CASES[0]))
    assert read_journal(saved_journal.path).finished_cases == dict(enumerate(CASES)) | {7: CASES[0]}


def test_invalid_journals_are_reported_and_unchanged(saved_journal: Journal) -> None:
    path = saved_journal.path.with_name(".x.journal.jsonl")
    saved_journal.path.with_name(".y.journal.jsonl").mkdir()
    header = saved_journal.path.read_bytes().splitlines(keepends=True)[0]
    unknown = header.replace(b'"kind":"run"', b'"kind":"run","colour":4')
    for content in (b"", b'{"kind":"finish"}\n', b'{"kind":"run","journal":4}\n', unknown):
        path.write_bytes(content)
        unfinished, errors = journals.unfinished_journals(path.parent)
        assert [journal.path for journal in unfinished] == [saved_journal.path]
        file_error, folder_error = map(str, errors)
        assert file_error.startswith(f"{path.name}: the first line is not the header of a run")
        assert folder_error.startswith(".y.journal.jsonl cannot be read (")
        assert path.read_bytes() == content


def test_only_one_process_writes_a_journal(saved_journal: Journal) -> None:
    content = saved_journal.path.read_bytes()
    assert not journals.is_in_use(saved_journal.path)
    refused = pytest.raises(MeasurementError, match="another run is writing")
    with read_journal(saved_journal.path), refused, read_journal(saved_journal.path):
        pass
    # A new writer begins a new line, since the last line may be cut off.
    assert saved_journal.path.read_bytes() == content + b"\n"
    saved_journal.path.unlink()
    assert journals.is_in_use(saved_journal.path), "a removed journal counts as in use"
    with new_journal(saved_journal.path.parent, HEADER) as other:
        assert other.path != saved_journal.path, "two runs may start in the same second"
