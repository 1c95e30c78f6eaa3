"""Sweeps submitted as local or SLURM jobs, and GPU sessions that run several studies."""

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
from experiments.commands.status import ShardState, queued, shard_states, sweeps, tag
from experiments.harness.journal import CaseResult, new_journal
from experiments.harness.request import Request
from report.core.errors import MeasurementError
from report.core.records.pooling import missing_shards, runs_of
from report.core.records.record import Case, Protocol, Shard
from report.core.records.store import read_records
from tests import factory
from tests.experiments.conftest import Ask, Driver, Notes, finished, make_header

LOCAL = ("--cluster", "local", "--nodes", "2")


def test_killed_jobs_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    pytest.importorskip("submitit")
    # The study writes its run's process number into this file while the case of size 3 waits.
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
    code, messages = finished(process)
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
    assert sorted(driver.measured()) == ["1", "2", "3", "3", "4", "5", "6"]
    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_timed")
    assert ask("status", "tiny", "--records", driver.data)[1].count("measured  ") == 2
    assert ask("submit", "tiny", *LOCAL, "--records", driver.data)[0] == 0, "nothing is left"
    # Other threads or another kind of node would be another sweep.
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
    """Before job n, shard 2 has ``saved[n]`` finished cases; later jobs add none.

    Before the last job, the record of shard 1 disappears, which must not submit shard 1.
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
    assert started == [2] * 6, "the last three of six jobs finish no case"


def test_the_exported_sbatch_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that puts a fake SLURM program, a shell script, onto the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def put(name: str, script: str) -> None:
        factory.write_program(tmp_path / name, f"#!/bin/sh\n{script}\n")

    return put


def test_the_queue_names_the_shards_of_a_study(slurm: Callable[[str, str], None]) -> None:
    sweep = tag("tiny", Shard(number=1, of=3, sweep="0" * 64), None, None)
    lines = [
        f"7_1|RUNNING|n1|1:00:00|None|{sweep}1,3",
        f"9|PENDING||1:00:00|Nodes are DOWN or DRAINED|{sweep}2",
        f"10|PENDING||1:00:00|Priority|{sweep.replace('tiny', 'other')}1",
        "11|PENDING||1:00:00|Priority|(null)",
    ]
    slurm("squeue", "\n".join(f"echo '{line}'" for line in lines))
    assert queued("tiny") == {
        sweep: {
            3: "running on n1, time limit 1:00:00",
            2: "pending (Nodes are DOWN or DRAINED), time limit 1:00:00",
        }
    }
    slurm("squeue", "echo slurm_load_jobs error >&2; exit 1")
    with pytest.raises(MeasurementError, match=r"does not answer \(slurm_load_jobs error\)"):
        queued("tiny")


@pytest.mark.usefixtures("tiny")
def test_errors_of_sbatch(tmp_path: Path, slurm: Callable[[str, str], None], ask: Ask) -> None:
    pytest.importorskip("submitit")
    slurm("srun", "exit 0")
    slurm("squeue", "exit 0")
    slurm("sbatch", f'cp "$1" {tmp_path}/script; echo "sbatch: error: no partition" >&2; exit 1')
    code, _, err = ask("submit", "tiny", "--partition", "nowhere", "--records", tmp_path)
    assert code == 1 and "The jobs cannot be submitted: sbatch: error: no partition; " in err
    script = (tmp_path / "script").read_text()
    for flag in ("partition=nowhere", "time=60", "signal=B:TERM@30", "exclusive", "nodes=1"):
        assert f"\n#SBATCH --{flag}" in script
    assert "\n#SBATCH --comment=ridgepoint:tiny:" in script
    assert "\nexec " in script, "exec, so that the run receives the signal"


def test_all_parts_of_a_gpu_session_are_valid() -> None:
    for part in gpu_session.PARTS:
        study, protocol, cases = gpu_session.request_of(part, 60.0, Path()).select()
        assert cases
        assert protocol.plan == "custom" and protocol.case_budget_s == part.case_budget_s
        # Reading the record back would fail only after half an hour of measuring.
        assert msgspec.convert(msgspec.to_builtins(protocol), Protocol) == protocol
        assert part.request.counters == "none" or study.subject is not None
        assert not part.request.if_missing, "a session never skips measured parts"


def test_an_alarm_ends_only_the_current_part(monkeypatch: pytest.MonkeyPatch, notes: Notes) -> None:
    with pytest.raises(KeyboardInterrupt) as caught, gpu_session._interrupt_after(0.01):
        time.sleep(60)
    assert caught.value.args == (signal.SIGALRM,)

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt(signal.SIGTERM)

    monkeypatch.setattr(gpu_session, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        gpu_session.measure_all("cuda", 10, Path(), notes)


def test_a_gpu_session_runs_all_parts_in_time_despite_failures(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    notes: Notes,
) -> None:
    """One part ends early, one fails, three reach their limit; of these, one has no case.

    Journals of earlier runs of the same studies remain unfinished.
    """
    result, header = CaseResult(case=0, outcome=Case(factors={})), make_header(tiny_study.STUDY)
    now, limit, closed = 0.0, 0.0, list[str]()

    def run(request: Request, observer: object) -> tuple[None, Path]:
        """End at once, or let the clock reach the part's limit and then fail or be interrupted."""
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
        assert excluded == [path for path in earlier if path.parent == tmp_path / study]
        closed.append(study)
        return ((None, Path("part.json")),)

    def limited(seconds: float) -> Any:
        nonlocal limit
        limit = seconds
        return nullcontext()

    earlier = []
    for study in ("training_roofline", "backend_speedup"):
        with new_journal(tmp_path / study, header) as journal:
            journal.append(result)
        earlier.append(journal.path)
    for name, double in (("run", run), ("close", close), ("_interrupt_after", limited)):
        monkeypatch.setattr(gpu_session, name, double)
    monkeypatch.setattr(gpu_session.time, "monotonic", lambda: now)
    assert gpu_session.measure_all("cuda", 10, tmp_path, notes) == 1
    assert now == pytest.approx(600)
    assert closed == ["training_roofline", "conv_profiling"]
    assert capsys.readouterr().out.splitlines() == [
        "inference_memory: whole.json",
        "training_roofline: part.json (its 189 s were over)",
        "backend_speedup: Nothing was measured: its 221 s were over; give more --minutes.",
        "conv_scaling: No device.",
        "conv_profiling: part.json (its 95 s were over)",
    ]
