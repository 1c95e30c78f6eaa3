"""A sweep as jobs: by processes of this machine, and what SLURM is asked and answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments import registry
from experiments.__main__ import main
from experiments.cluster import submit
from experiments.harness.status import Part, queued, tag
from report.errors import MeasurementError
from report.records.pooling import missing_shards, runs_of, whole
from report.records.record import Shard
from report.records.store import read_study
from tests.experiments.conftest import Driver, Notes, finished

LIMIT_S = 240
SIZES = ["1", "2", "3", "4", "5", "6"]


def until(holds: Callable[[], object], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def driver(sharded: Driver) -> Driver:
    return sharded


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the job that waits in its third case says its process."""
    monkeypatch.setenv("TINY_HELD", str(tmp_path / "held"))
    return tmp_path / "held"


def check_whole(driver: Driver, again: list[str]) -> None:
    """All cases and processes are there once, and only those of ``again`` were begun twice."""
    assert driver.journals() == []
    assert sorted(driver.measured()) == sorted([*SIZES, *again])
    assert len(read_study("tiny", driver.data)) == 2
    (run,) = runs_of(read_study("tiny", driver.data))
    assert missing_shards(run) == ()
    record = whole(run).record
    assert record.shard is None and "--shard" not in record.command
    for case in record.cases:
        size = case.factors["size"]
        assert (case.status, case.samples("allocated_peak")) == ("ok", (size,))
        assert Counter((r.policy, r.process) for r in case.rounds) == Counter(
            [("retained", 1), ("retained", 2), ("default", 1)]
        )
        assert {sample for r in case.rounds for sample in r.samples("time")} == {size}


def test_a_job_that_is_killed_goes_on_and_nothing_is_lost_or_doubled(
    driver: Driver,
    held: Path,
    tiny: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("submitit")
    process = driver.start("--cluster", "local", "--nodes", "2", command="submit")
    until(held.exists, process)
    # The case before is on the disk a moment later.
    kept = b'"kind":"finish","case":0'
    until(lambda: any(kept in path.read_bytes() for path in driver.journals()), process)
    os.kill(int(held.read_text()), signal.SIGKILL)
    code, messages = finished(process)
    assert code == 0, messages
    assert "merged from 2 shards" in messages
    assert "Submitted jobs for these of 2 shards: 1, 2; " in messages
    assert "Submitted jobs for these of 2 shards: 1; " in messages
    check_whole(driver, again=["3"])
    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_timed")
    assert main(["status", "tiny", "--records", str(driver.data)]) == 0
    assert capsys.readouterr().out.count("measured  ") == 2
    words = ["--cluster", "local", "--nodes", "2", "--records", str(driver.data)]
    assert main(["submit", "tiny", *words]) == 0, "nothing is left to submit"


@pytest.mark.parametrize(("kept", "starts"), [((0,), 3), ((0, 2, 1, 2), 4), ((3, 1, 0, 4), 6)])
def test_jobs_without_progress_are_given_up_though_their_files_differ(
    monkeypatch: pytest.MonkeyPatch, notes: Notes, kept: tuple[int, ...], starts: int
) -> None:
    """``kept`` is what is there of a shard before each job; the last one stays."""
    started = list[int]()
    there = enumerate(chain(kept, repeat(kept[-1], 4)))

    def parts() -> dict[int, Part]:
        number, count = next(there)
        return {1: Part("measured", "a"), 2: Part("unfinished", str(number), count)}

    jobs: Any = SimpleNamespace(
        shard=Shard(number=1, of=2, sweep="0" * 64),
        options=SimpleNamespace(cluster="local", nodes=1, time=1),
        running={2: SimpleNamespace(paths=SimpleNamespace(stderr=os.devnull))},
        active=dict,
        parts=parts,
        start=started.extend,
    )
    monkeypatch.setattr(submit, "Jobs", lambda *_: jobs)
    monkeypatch.setattr(submit.time, "sleep", lambda _: None)
    with pytest.raises(MeasurementError, match="Shard 2 was submitted 3 times without progress"):
        submit.submit(jobs, jobs, notes)
    assert started == [2] * starts


# ------------------------------------------------------------------------------------------ SLURM


def test_the_script_for_sbatch_says_all_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = "submit conv_scaling --device cuda --partition gpu --gres gpu:1 --shards 4 --nodes 2"
    options = ["--label", "a b", "--time", "90", "--export-sbatch", "sweep.sh"]
    assert main([*words.split(), *options]) == 0
    script = Path("sweep.sh").read_text().splitlines()
    for flag in ("array=1-4%2", "partition=gpu", "gres=gpu:1", "time=90", f"chdir={tmp_path}",
                 "output=data/conv_scaling/.jobs/%A_%a.log", "signal=B:TERM@30",
                 "exclusive"):  # fmt: skip
        assert f"#SBATCH --{flag}" in script
    assert script[-1] == (
        f"exec {sys.executable} -m experiments run conv_scaling --device cuda --label 'a b' "
        "--shard ${SLURM_ARRAY_TASK_ID}/4 --if-missing"
    )


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a program of SLURM onto the path that does what a shell is told."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def put(name: str, does: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)

    return put


def test_the_queue_names_the_shards_of_a_study(slurm: Callable[[str, str], None]) -> None:
    sweep = Shard(number=1, of=3, sweep="0" * 64)
    lines = [
        f"7_1|RUNNING|n1|1:00:00|None|{tag('tiny', sweep, [1, 3])}",
        f"9|PENDING||1:00:00|Nodes are DOWN or DRAINED|{tag('tiny', sweep, [2])}",
        f"10|PENDING||1:00:00|Priority|{tag('other', sweep, [1])}",
        "11|PENDING||1:00:00|Priority|(null)",
    ]
    slurm("squeue", "\n".join(f"echo '{line}'" for line in lines))
    assert queued("tiny") == {
        ("0" * 64, 3): {
            3: "running on n1, time limit 1:00:00",
            2: "pending (Nodes are DOWN or DRAINED), time limit 1:00:00",
        }
    }
    slurm("squeue", "echo slurm_load_jobs error >&2; exit 1")
    with pytest.raises(MeasurementError, match=r"does not answer \(slurm_load_jobs error\)"):
        queued("tiny")


def test_what_sbatch_refuses_is_said(
    tmp_path: Path,
    slurm: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_timed")
    slurm("srun", "exit 0")
    slurm("squeue", "exit 0")
    slurm("sbatch", f'cp "$1" {tmp_path}/script; echo "sbatch: error: no partition" >&2; exit 1')
    assert main(["submit", "tiny", "--partition", "nowhere", "--records", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "The jobs cannot be submitted: sbatch: error: no partition; " in said
    script = (tmp_path / "script").read_text().splitlines()
    for flag in ("partition=nowhere", "time=60", "signal=B:TERM@30", "exclusive"):
        assert f"#SBATCH --{flag}" in script
    assert any(line.startswith("#SBATCH --comment=ridgepoint:tiny:") for line in script)
    assert any(line.startswith("exec ") for line in script), "the run hears the signal itself"
