"""What the doctor says of a machine: each check for itself, and the whole of this one."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.harness import doctor
from experiments.harness.doctor import Check

ROOT = Path(__file__).parents[2]
GIB = 2**30


def said(check: Check) -> str:
    """The level and the whole text."""
    return f"{check.level}: {check.text}"


def test_processors_that_share_cores_or_a_quota_are_told() -> None:
    assert doctor.processors(2, 2, 2, None).level == "ok"
    assert doctor.processors(2, None, 2, 4.0).level == "ok"
    shared = doctor.processors(8, 4, 8, None)
    assert shared.level == "note"
    assert shared.text.endswith("they are 4 cores with 2 threads each: compare --threads 4")
    limited = doctor.processors(64, 64, 64, 2.5)
    assert limited.level == "problem"
    assert limited.text.endswith("the container may use 2.5 at a time: give --threads 2")
    assert doctor.processors(4, 4, 4, 0.5).text.endswith("give --threads 1")


def test_little_room_is_told() -> None:
    assert said(doctor.free_memory(10 * GIB, 16 * GIB)) == "ok: 10.0 of 16.0 GiB free"
    assert doctor.free_memory(GIB, 16 * GIB).level == "note"
    assert doctor.free_memory(10 * GIB, 16 * GIB, 16 * GIB).level == "ok"
    assert doctor.free_memory(10 * GIB, 16 * GIB, GIB).level == "problem"
    assert doctor.disk(10 * GIB).level == "ok"
    assert "--records" in doctor.disk(GIB // 2).text


def test_counters_and_their_permission() -> None:
    assert said(doctor.counter("lackey", None)) == "ok: can count executed work"
    assert said(doctor.counter("ncu", "no")) == "note: cannot count here: no"
    closed = "EnableMSI: 1\nRmProfilingAdminOnly: 1\n"
    reason = doctor.profiling_permission(closed, root=False)
    assert reason is not None and "NVreg_RestrictProfilingToAdminUsers=0" in reason
    assert doctor.profiling_permission(closed, root=True) is None
    assert doctor.profiling_permission("RmProfilingAdminOnly: 0", root=False) is None


def test_only_a_machine_without_torch_makes_it_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_WATCH_S", 0.01)
    monkeypatch.setattr(doctor, "TOOLS", ())
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / ".20261120T100000Z-a-2t.journal.jsonl").write_text("")
    assert main(["doctor", "--records", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("unfinished: tiny (1)" in line for line in lines)
    assert lines[-1] == "Nothing can be measured here before PyTorch can be imported."


def test_without_its_packages_it_still_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_there(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "_WATCH_S", 0.01)
    monkeypatch.setattr(doctor, "TOOLS", ())
    monkeypatch.setattr(importlib.metadata, "version", none_there)
    monkeypatch.setitem(sys.modules, "psutil", None)
    lines: list[str] = []
    assert doctor.doctor(tmp_path / "not there", lines.append) == 1
    assert any("not installed: psutil, rich" in line.replace("\n", " ") for line in lines)
    assert not (tmp_path / "not there").exists()


def test_this_machine_is_looked_at_and_torch_comes_last(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = [sys.executable, "-m", "experiments", "doctor", "--records", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("This machine can measure; ")
    assert lines[-2].startswith("ok       PyTorch") or lines[-3].startswith("ok       PyTorch")
    assert max(map(len, lines)) <= 80
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing"
    code = "import sys, experiments.harness.doctor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
