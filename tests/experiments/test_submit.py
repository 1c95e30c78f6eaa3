"""A sweep as jobs, by processes of this machine and by a real SLURM of one node."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.harness.status import queued, tag
from report.records.record import Shard
from report.records.shards import missing_shards, runs_of, whole
from report.records.store import read_study
from tests.experiments.conftest import Driver

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


def check_whole(driver: Driver, again: list[str], shards: int = 4) -> None:
    """All cases and processes are there once, and only those of ``again`` were begun twice."""
    assert driver.journals() == []
    assert sorted(driver.measured()) == sorted([*SIZES, *again])
    assert len(read_study("tiny", driver.data)) == shards
    (run,) = runs_of(read_study("tiny", driver.data))
    assert missing_shards(run) == ()
    record = whole(run).record
    assert record.shard is None and "--shard" not in record.command
    for case in record.cases:
        size = case.factors["size"]
        assert (case.status, case.samples("allocated_peak")) == ("ok", (size,))
        assert Counter((r.policy, r.process) for r in case.rounds) == Counter(
            [("retained", n) for n in (1, 2, 3, 4)] + [("default", n) for n in (1, 2)]
        )
        assert {sample for r in case.rounds for sample in r.samples("time")} == {size}


def submitted(driver: Driver, held: Path, *words: str) -> str:
    """Submit four shards, kill the job that waits, and return what was said at the end."""
    process = driver.start(*words, "--nodes", "4", command="submit")
    until(held.exists, process)
    os.kill(int(held.read_text()), signal.SIGKILL)
    out, messages = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, messages
    assert "merged from 4 shards" in out
    return messages


def status_of(driver: Driver) -> str:
    process = driver.start(command="status")
    out, messages = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, messages
    return out


# ------------------------------------------------------------------------------- on this machine


def test_a_job_that_is_killed_goes_on_and_nothing_is_lost_or_doubled(
    driver: Driver, held: Path
) -> None:
    pytest.importorskip("submitit")
    messages = submitted(driver, held, "--cluster", "local")
    assert "Submitted jobs for these of 4 shards: 1, 2, 3, 4; " in messages
    assert "Submitted jobs for these of 4 shards: 3; " in messages
    check_whole(driver, again=["3"])
    assert status_of(driver).count(" measured ") == 4
    process = driver.start("--cluster", "local", "--nodes", "4", command="submit")
    _, messages = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, "Submitted" in messages) == (0, False)


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


def test_the_queue_names_the_shards_of_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Shard(number=1, of=3, sweep="0" * 64)
    lines = [
        f"7_1|RUNNING|n1|1:00:00|None|{tag('tiny', sweep, [1, 3])}",
        f"9|PENDING||1:00:00|Nodes are DOWN or DRAINED|{tag('tiny', sweep, [2])}",
        f"10|PENDING||1:00:00|Priority|{tag('other', sweep, [1])}",
        "11|PENDING||1:00:00|Priority|(null)",
    ]
    (tmp_path / "answer").write_text("\n".join(lines))
    (tmp_path / "squeue").write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert queued("tiny") == {
        ("0" * 64, 3): {
            3: "running on n1, time limit 1:00:00",
            2: "pending (Nodes are DOWN or DRAINED), time limit 1:00:00",
        }
    }


# ------------------------------------------------------------------------------------- SLURM

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={room}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={room}/state
SlurmdSpoolDir={room}/spool
SlurmctldPidFile={room}/slurmctld.pid
SlurmdPidFile={room}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2
ReturnToService=2
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=500 Gres=gpu:1
PartitionName=main Nodes={host} Default=YES
PartitionName=gpu Nodes={host}
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A SLURM of one node, this machine; skipped where it cannot start."""
    for program in ("slurmctld", "slurmd", "sbatch", "munged"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: apt-get install slurmctld slurmd munge")
    if os.geteuid() != 0:
        pytest.skip("only root can start SLURM's daemons")
    room = tmp_path / "slurm"
    for folder in (room, room / "state", room / "spool"):
        folder.mkdir(mode=0o755)
    (room / "munge.key").write_bytes(os.urandom(1024))
    (room / "munge.key").chmod(0o400)
    configuration = room / "slurm.conf"
    host = socket.gethostname().split(".")[0]
    configuration.write_text(
        CONFIGURATION.format(
            host=host,
            room=room,
            controller=free_port(),
            node=free_port(),
            cpus=os.cpu_count(),
        )
    )
    (room / "gres.conf").write_text(f"NodeName={host} Name=gpu Count=1 File=/dev/null\n")
    monkeypatch.setenv("SLURM_CONF", str(configuration))
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log",
             "seed-file": "seed"}  # fmt: skip
    munge = ["munged", "--foreground", "--force"]
    munge += [f"--{option}={room}/munge.{end}" for option, end in files.items()]
    commands = [munge, ["slurmctld", "-D", "-c"], ["slurmd", "-D"]]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        with (room / "said.txt").open("wb") as said:
            for words in commands:
                daemons.append(subprocess.Popen(words, stdout=said, stderr=said))
                time.sleep(0.5)
            deadline = time.monotonic() + 30
            while (
                "idle"
                not in subprocess.run(
                    ["sinfo", "--noheader", "--format=%T"],
                    capture_output=True,
                    text=True,
                    check=False,
                ).stdout
            ):
                if time.monotonic() > deadline:
                    text = (room / "said.txt").read_text(errors="replace")[-500:]
                    pytest.skip(f"SLURM does not start here: {text}")
                time.sleep(0.5)
        yield
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(timeout=30)


def test_slurm_measures_a_sweep_of_which_a_job_is_killed(
    driver: Driver, held: Path, slurm: None
) -> None:
    pytest.importorskip("submitit")
    messages = submitted(driver, held, "--partition", "main", "--time", "5")
    assert "Submitted jobs for these of 4 shards: 3; " in messages
    assert "shard 1 of 4: running on" in messages
    refused = driver.start("--partition", "nowhere", "--shards", "3", command="submit")
    _, messages = refused.communicate(timeout=LIMIT_S)
    assert refused.returncode == 1
    assert "The jobs cannot be submitted: sbatch: error: " in messages
    check_whole(driver, again=["3"])
