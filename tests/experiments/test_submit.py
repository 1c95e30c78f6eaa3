"""Sweeps submitted as local or SLURM jobs, and GPU sessions that run several studies.

A sweep is a run that is divided into shards; one job measures one shard.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import tiny_study

from experiments import gpu_session, registry
from experiments.__main__ import main
from experiments.cluster import submit
from experiments.commands.status import ShardState, queued_jobs, shard_states, sweeps, tag
from experiments.harness.journal import CaseResult, new_journal
from experiments.harness.request import Request
from report.core.errors import MeasurementError
from report.core.records.pooling import missing_shards, runs_of
from report.core.records.record import Case, Protocol, Shard
from report.core.records.store import read_records
from tests import factory
from tests.experiments.conftest import Ask, Driver, Notes, make_header, wait_for

LOCAL = ("--cluster", "local", "--nodes", "2")


def test_killed_jobs_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    """The case of size 3 waits until the job that measures it is killed."""
    pytest.importorskip("submitit")
    # While the case waits, this file contains the process number of the job.
    process_number, driver = tmp_path / "held", Driver(tmp_path)
    monkeypatch.setenv("TINY_STUDY", "tiny_timed")
    monkeypatch.setenv("TINY_HELD", str(process_number))

    def first_case_is_saved() -> bool:
        journals = [path.read_bytes() for path in driver.journals()]
        return any(b'"kind":"finish","case":0' in content for content in journals)

    process = driver.start(*LOCAL, command="submit")
    factory.wait_until(process_number.exists, process)
    factory.wait_until(first_case_is_saved, process)
    os.kill(int(process_number.read_text()), signal.SIGKILL)
    code, messages = wait_for(process)
    assert code == 0, messages
    for message in ("Submitted shards 1, 2 of 2; ", "Submitted shards 1 of 2; ", "newest full run"):
        assert message in messages
    (run,) = runs_of(read_records("tiny", driver.data))
    assert len(run.parts) == 2 and missing_shards(run) == ()
    for size, case in enumerate(run.record.cases, 1):
        assert case.status == "ok" and case.samples("allocated_peak") == (size,)
        processes = sorted((round_.policy, round_.process) for round_ in case.rounds)
        assert processes == [("default", 1), ("retained", 1), ("retained", 2)]
        assert {round_.samples("time") for round_ in case.rounds} == {(size / 1000,)}
    assert driver.journals() == []
    # Only the killed case was measured again.
    assert sorted(driver.measured_sizes()) == ["1", "2", "3", "3", "4", "5", "6"]
    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_timed")
    assert ask("status", "tiny", "--records", driver.data)[1].count("measured  ") == 2
    assert ask("submit", "tiny", *LOCAL, "--records", driver.data)[0] == 0, "no shard is missing"
    # With another number of threads or on another kind of node, all shards would be missing.
    ((first_part, _),) = sweeps("tiny", driver.data)
    default = first_part.environment.threads
    for threads, label, state in (
        (None, None, "measured"),
        (default, None, "measured"),
        (default + 1, None, "missing"),
        (None, "another kind of node", "missing"),
    ):
        sweep = tag("tiny", first_part.shard, threads, label)
        assert shard_states("tiny", driver.data, sweep)[1].state == state


def test_jobs_without_progress_end_the_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: Notes
) -> None:
    """Before job n (from 0), shard 2 has ``saved[n]`` finished cases, from job 3 on always 4.

    After job 5, the record of shard 1 disappears; shard 1 must not be submitted.
    """
    saved = (3, 1, 0, 4)
    started, log = list[int](), tmp_path / "a.log"
    log.write_bytes(b"\xff\nkilled")

    def shard_states(*_: object) -> dict[int, ShardState]:
        number = len(started)
        finished_cases = saved[min(number, len(saved) - 1)]
        first = ShardState("missing" if number == 6 else "measured", "a")
        return {1: first, 2: ShardState("unfinished", str(number), finished_cases)}

    request = SimpleNamespace(study="tiny", records=Path())
    options = SimpleNamespace(cluster="local", nodes=1, time=1)
    job = SimpleNamespace(paths=SimpleNamespace(stderr=log))
    jobs: Any = SimpleNamespace(
        request=request, options=options, submitted={2: job}, sweep_tag="", shards=2, active=dict,
        start=started.extend,
    )  # fmt: skip
    monkeypatch.setattr(submit.status, "shard_states", shard_states)
    monkeypatch.setattr(submit.time, "sleep", lambda _: None)
    reason = r"Shard 2 was submitted 3 times without progress, .* 1 min .*a.log ends with: killed"
    with pytest.raises(MeasurementError, match=reason):
        submit._submit_missing(jobs, notes)
    # The last progress is before job 3.
    assert started == [2] * 6


def test_the_exported_sbatch_script_runs_one_shard_per_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = "submit conv_scaling --device cuda --partition gpu --gres gpu:1 --shards 4 --nodes 2"
    options = ["--label", "a b", "--time", "90", "--export-sbatch", "sweep.sh"]
    assert main([*words.split(), *options]) == 0
    script = Path("sweep.sh").read_text().splitlines()
    for flag in ("array=1-4%2", "partition=gpu", "gres=gpu:1", "time=90", f"chdir={tmp_path}",
                 "output=data/conv_scaling/.jobs/%A_%a.log", "signal=B:TERM@30"):  # fmt: skip
        assert f"#SBATCH --{flag}" in script
    assert script[-1] == (
        f"exec {sys.executable} -m experiments run conv_scaling --device cuda --label 'a b' "
        "--shard ${SLURM_ARRAY_TASK_ID}/4 --if-missing"
    )


@pytest.fixture
def replace_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that replaces a program of SLURM by a shell script."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def replace(program: str, script: str) -> None:
        factory.write_program(tmp_path / program, f"#!/bin/sh\n{script}\n")

    return replace


def test_the_queue_names_the_shards_of_a_study(replace_slurm: Callable[[str, str], None]) -> None:
    """Jobs of other studies and jobs without the tag of a sweep are left out."""
    sweep = tag("tiny", Shard(number=1, of=3, sweep="0" * 64), threads=None, label=None)
    # Array job 7 measures shards 1 and 3; its task 1 (from 0) is running.
    lines = [
        f"7_1|RUNNING|n1|1:00:00|None|{sweep}1,3",
        f"9|PENDING||1:00:00|Nodes are DOWN or DRAINED|{sweep}2",
        f"10|PENDING||1:00:00|Priority|{sweep.replace('tiny', 'other')}1",
        "11|PENDING||1:00:00|Priority|(null)",
    ]
    replace_slurm("squeue", "\n".join(f"echo '{line}'" for line in lines))
    assert queued_jobs("tiny") == {
        sweep: {
            3: "running on n1, time limit 1:00:00",
            2: "pending (Nodes are DOWN or DRAINED), time limit 1:00:00",
        }
    }
    replace_slurm("squeue", "echo slurm_load_jobs error >&2; exit 1")
    with pytest.raises(MeasurementError, match=r"does not answer \(slurm_load_jobs error\)"):
        queued_jobs("tiny")


@pytest.mark.usefixtures("tiny")
def test_a_job_that_sbatch_refuses_is_reported(
    tmp_path: Path, replace_slurm: Callable[[str, str], None], ask: Ask
) -> None:
    pytest.importorskip("submitit")
    replace_slurm("srun", "exit 0")
    replace_slurm("squeue", "exit 0")
    keep_script = f'cp "$1" {tmp_path}/script'
    fail = 'echo "sbatch: error: no partition" >&2; exit 1'
    replace_slurm("sbatch", f"{keep_script}; {fail}")
    code, _, err = ask("submit", "tiny", "--partition", "nowhere", "--records", tmp_path)
    assert code == 1 and "The jobs cannot be submitted: sbatch: error: no partition; " in err
    script = (tmp_path / "script").read_text()
    for flag in ("partition=nowhere", "time=60", "signal=B:TERM@30", "exclusive", "nodes=1"):
        assert f"\n#SBATCH --{flag}" in script
    assert "\n#SBATCH --comment=ridgepoint:tiny:" in script
    assert "\nexec " in script, "exec, so that the run receives the signal"


def test_all_parts_of_a_gpu_session_are_valid() -> None:
    """A part is the run of one study."""
    for part in gpu_session.PARTS:
        study, protocol, cases = gpu_session.request_of(part, 60.0, Path()).select()
        assert cases
        assert protocol.plan == "custom" and protocol.case_budget_s == part.case_budget_s
        # An invalid protocol would fail only when the record is read, after half an hour.
        assert msgspec.convert(msgspec.to_builtins(protocol), Protocol) == protocol
        assert part.request.counters == "none" or study.subject is not None
        assert not part.request.if_missing, "a session never skips measured parts"


def test_an_alarm_interrupts_a_part() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, gpu_session._interrupt_after(0.01):
        time.sleep(60)
    assert caught.value.args == (signal.SIGALRM,)


def test_a_signal_ends_the_session(monkeypatch: pytest.MonkeyPatch, notes: Notes) -> None:
    def end_by_signal(*_: object) -> None:
        raise KeyboardInterrupt(signal.SIGTERM)

    monkeypatch.setattr(gpu_session, "run", end_by_signal)
    with pytest.raises(KeyboardInterrupt):
        gpu_session.measure_all("cuda", minutes=10, records=Path(), observer=notes)


def test_a_gpu_session_runs_all_parts_in_time_despite_failures(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    notes: Notes,
) -> None:
    """One part ends early, one fails, three reach their limit; of these, one has no case.

    Unfinished journals of earlier runs of the same studies are not closed.
    """
    result, header = CaseResult(case=0, outcome=Case(factors={})), make_header(tiny_study.STUDY)
    now, limit, closed = 0.0, 0.0, list[str]()

    def run(request: Request, observer: object) -> tuple[None, Path]:
        """End at once, or advance the clock by the part's limit; then fail or be interrupted."""
        nonlocal now
        if request.study == "inference_memory":
            return None, Path("whole.json")
        now += limit
        if request.study == "conv_scaling":
            raise MeasurementError("No device.")
        if request.study != "backend_speedup":
            with new_journal(tmp_path / request.study, header) as journal:
                journal.append(result)
        raise KeyboardInterrupt(signal.SIGALRM)

    def close(study: str, records: Path, _: object, excluded: list[Path]) -> Any:
        assert excluded == [path for path in earlier_journals if path.parent == tmp_path / study]
        closed.append(study)
        return ((None, Path("part.json")),)

    def set_limit(seconds: float) -> Any:
        nonlocal limit
        limit = seconds
        return nullcontext()

    earlier_journals = []
    for study in ("training_roofline", "backend_speedup"):
        with new_journal(tmp_path / study, header) as journal:
            journal.append(result)
        earlier_journals.append(journal.path)
    for name, replacement in (("run", run), ("close", close), ("_interrupt_after", set_limit)):
        monkeypatch.setattr(gpu_session, name, replacement)
    monkeypatch.setattr(gpu_session.time, "monotonic", lambda: now)
    assert gpu_session.measure_all("cuda", 10, tmp_path, notes) == 1
    assert now == pytest.approx(600)  # ten minutes
    assert closed == ["training_roofline", "conv_profiling"]
    assert capsys.readouterr().out.splitlines() == [
        "inference_memory: whole.json",
        "training_roofline: part.json (its 189 s were over)",
        "backend_speedup: Nothing was measured: its 221 s were over; give more --minutes.",
        "conv_scaling: No device.",
        "conv_profiling: part.json (its 95 s were over)",
    ]
