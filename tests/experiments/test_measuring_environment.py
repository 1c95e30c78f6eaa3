"""The environment: what is read, how the device is called, and what never gets into a record."""

from __future__ import annotations

import getpass
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from experiments.harness import (
    cgroups,
    code,
    doctor,
    environment,
    limits,
    machine,
    runtime,
)
from experiments.harness.study import UsageError
from experiments.harness.text import without_paths
from report.errors import MeasurementError
from tests.experiments.conftest import HOST, ROOT, make_environment


def test_paths_are_reduced_to_their_last_part() -> None:
    text = "CXX_COMPILER=/opt/rh/gcc/bin/c++, at /home/me/x.py: a/b 1/2 //"
    assert without_paths(text) == "CXX_COMPILER=c++, at x.py: a/b 1/2 //"


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(machine, "_GOVERNOR", Path("/no/such/file"))
    found = environment.gather(torch, "cpu", 1, name="lab 3", number=("0123456789ab", ""))
    closed = environment.closed(found, {"ceilings.after": "no time"})
    assert re.fullmatch("lab-3-1t-[0-9a-f]{6}", found.key)
    assert found.name == "lab 3" and "name" not in found.missing
    assert found.host is not None and found.host.machine == "0123456789ab"
    assert found.gpu is None and "gpu" in found.missing
    assert found.cpu.governor is None and "cpu.governor" in found.missing
    assert found.cpu.cores_available == runtime.cores_available() >= 1
    assert found.torch.version == torch.__version__
    assert found.memory_bytes > 2**28
    assert closed.load_after is not None or "load_after" in closed.missing
    assert closed.missing["ceilings.after"] == "no time"
    everything = repr(closed)
    assert not [word for word in everything.split() if word.strip("'\"=,").startswith("/")]
    node = platform.node()
    assert len(node) < 4 or node not in everything
    assert len(getpass.getuser()) < 5 or getpass.getuser() not in everything


def test_the_number_of_the_machine_comes_when_the_run_begins() -> None:
    before = make_environment(host=msgspec.structs.replace(HOST, machine=None))
    before = msgspec.structs.replace(before, missing={"host.machine": "none yet", "gpu": "no"})
    after = environment.numbered(before, ("00112233aabb", ""))
    assert after.host is not None and after.host.machine == "00112233aabb"
    assert after.missing == {"gpu": "no"}
    assert environment.numbered(after, (None, "full")).missing["host.machine"] == "full"
    assert environment.numbered(make_environment(host=None), ("0", "")).host is None


def fake_torch(cudnn: int | None) -> Any:
    properties = SimpleNamespace(name="NVIDIA H200", total_memory=2**37, major=9, minor=0)
    return SimpleNamespace(
        cuda=SimpleNamespace(
            current_device=lambda: 0, get_device_properties=lambda index: properties
        ),
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: cudnn)),
        version=SimpleNamespace(cuda="12.6", hip=None),
    )


def test_the_key_of_a_run_on_a_gpu_names_it_however_many_a_job_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    one = fake_torch(90100).cuda
    monkeypatch.setattr(torch.cuda, "current_device", one.current_device)
    monkeypatch.setattr(torch.cuda, "get_device_properties", one.get_device_properties)
    monkeypatch.setattr(environment, "_driver", lambda: "560.35")
    gpu, missing = environment._gpu(fake_torch(90100))
    assert (gpu.model, gpu.compute_capability, gpu.driver) == ("NVIDIA H200", "9.0", "560.35")
    assert (gpu.cuda, gpu.cudnn, missing) == ("12.6", "90100", {})
    keys = []
    for count in (1, 8):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        keys.append(environment.gather(torch, "cuda", 2).key)
    assert all(re.fullmatch("nvidia-h200-[0-9a-f]{6}", key) for key in keys)
    assert keys[0] == keys[1]


@pytest.mark.usefixtures("without_gpu")
def test_no_cuda_is_one_sentence() -> None:
    with pytest.raises(MeasurementError, match="finds no CUDA device here"):
        runtime.start_torch("cuda", runtime.checked_threads(None))


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_threads_that_are_not_there_are_refused(threads: int) -> None:
    with pytest.raises(UsageError, match="possible are 1 to "):
        runtime.checked_threads(threads)


#: A name in Latin-1: no text in UTF-8, and a folder as good as another where there is Linux.
UNDECODABLE = os.fsdecode(b"caf\xe9")


def test_only_what_measures_a_study_decides_whether_runs_pool(tmp_path: Path) -> None:
    root = tmp_path / "copy"
    for room in ("experiments", "report"):
        shutil.copytree(code.ROOT / room, root / room, ignore=shutil.ignore_patterns("__pycache__"))

    def hashes(changed: str) -> list[bool]:
        """Whether the hash of two studies is the same once a file has one more line."""
        path = root / "experiments" / changed
        before, plain = [hash_of(name) for name in names], path.read_text()
        path.write_text(f"{plain}# One more line.\n")
        after = [hash_of(name) for name in names]
        path.write_text(plain)
        return [a == b for a, b in zip(before, after, strict=True)]

    def hash_of(name: str) -> str:
        return code.hash_of(code.measuring_sources(name, root), root)

    names = ("conv_scaling", "training_roofline")
    for changed in ("harness/doctor.py", "harness/run.py", "harness/rounds.py", "options.py",
                    "importers/command.py", "backends/libraries.py"):  # fmt: skip
        assert hashes(changed) == [True, True], changed
    for changed in ("harness/worker.py", "harness/timing.py", "harness/memory.py"):
        assert hashes(changed) == [False, False], changed
    assert hashes("conv_scaling.py") == hashes("networks/mnist.py") == [False, True]
    plain, path = hash_of(names[0]), root / "experiments" / "conv_scaling.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))  # core.autocrlf
    assert hash_of(names[0]) == plain
    assert hashes("training_processes.py") == hashes("networks/catalogue.py") == [True, False]


@pytest.mark.parametrize("name", ["plain", UNDECODABLE])
def test_the_commit_and_whether_the_tree_is_clean(tmp_path: Path, name: str) -> None:
    tmp_path = tmp_path / name
    try:
        tmp_path.mkdir()
    except OSError:
        pytest.skip("this file system takes no such name")

    def git(*words: str) -> None:
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "errors.py").write_text("1")
    none, missing = code.identify("conv_scaling", tmp_path)
    assert (none.commit, none.tree_clean) == (None, None)
    assert set(missing) == {"code.commit", "code.tree_clean"}
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "record.json").write_text("{}")
    clean, _ = code.identify("conv_scaling", tmp_path)
    assert clean.commit is not None and clean.tree_clean is True
    (tmp_path / "report" / "work.py").write_text("2")
    assert code.identify("conv_scaling", tmp_path)[0].tree_clean is False


def test_a_checkout_of_somebody_else_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "errors.py").write_text("1")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    _, missing = code.identify("conv_scaling", tmp_path)
    assert "another user" in missing["code.commit"] and str(tmp_path) not in str(missing)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is not installed" in code.identify("conv_scaling", tmp_path)[1]["code.tree_clean"]


def test_no_checkout_changes_line_ends() -> None:
    words = ["git", "check-attr", "text", "experiments/registry.py", "data/editions.yaml"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("this is no checkout of git")
    assert [line.rpartition(" ")[2] for line in done.stdout.splitlines()] == ["unset"] * 2


def group(root: Path, **files: str) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(f"{text}\n")


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_container_may_use_stands_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """A quota of 0.4 processors and 900 MiB, each in the group above that of the process."""
    torch = pytest.importorskip("torch")
    mib = 2**20
    if version == 1:
        own = "4:memory:/a/b\n3:cpu,cpuacct:/a/b\n1:name=systemd:/a/b\n"
        group(tmp_path / "cpu/a", cpu__cfs_quota_us="40000", cpu__cfs_period_us="100000")
        group(tmp_path / "cpu/a/b", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
        used = {"memory__usage_in_bytes": f"{500 * mib}", "memory__stat": "total_inactive_file 7"}
        group(tmp_path / "memory/a", memory__limit_in_bytes=f"{900 * mib}", **used)
        group(tmp_path / "memory/a/b", memory__limit_in_bytes="9223372036854771712", **used)
    else:
        own = "0::/a/b\n"
        used = {"memory__current": f"{500 * mib}", "memory__stat": "anon 1\ninactive_file 7"}
        group(tmp_path / "a", cpu__max="40000 100000", memory__max=f"{900 * mib}", **used)
        group(tmp_path / "a/b", cpu__max="max 100000", memory__max="max", **used)
    monkeypatch.setattr(cgroups, "_ROOT", tmp_path)
    monkeypatch.setattr(cgroups, "_OWN", tmp_path / "own")
    (tmp_path / "own").write_text(own)
    assert cgroups.processors() == 0.4 and cgroups.memory() == 900 * mib
    assert cgroups.memory_left() == 400 * mib + 7 == limits.available()
    variables = environment.gather(torch, "cpu", 1).variables
    assert variables["cgroup.processors"] == "0.4"
    assert variables["cgroup.memory_bytes"] == str(900 * mib)
    said = {check.topic: check.level for check in doctor._by_psutil()}
    assert said["processors"] == said["memory"] == "problem"
    (tmp_path / "own").write_text("0::/\n")
    assert cgroups.processors() is cgroups.memory() is cgroups.memory_left() is None
