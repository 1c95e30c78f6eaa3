"""What the doctor says of a machine: each check for itself, and the whole of this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.harness import doctor
from experiments.harness.doctor import Check

ROOT = Path(__file__).parents[2]
GIB = 2**30


@pytest.mark.parametrize(
    ("check", "level", "words"),
    [
        (doctor.processors(2, 2, 2, None), "ok", ""),
        (doctor.processors(2, None, 2, 4.0), "ok", ""),
        (doctor.processors(8, 4, 8, None), "note", "--threads 4"),
        (doctor.processors(64, 64, 64, 2.5), "problem", "--threads 2"),
        (doctor.processors(4, 4, 4, 0.5), "problem", "--threads 1"),
        (doctor.free_memory(10 * GIB, 16 * GIB), "ok", "10.0 of 16.0 GiB"),
        (doctor.free_memory(GIB, 16 * GIB), "note", ""),
        (doctor.free_memory(10 * GIB, 16 * GIB, 16 * GIB), "ok", ""),
        (doctor.free_memory(10 * GIB, 16 * GIB, GIB), "problem", ""),
    ],
)
def test_each_check_says_its_level_and_what_to_do(check: Check, level: str, words: str) -> None:
    assert check.level == level and words in check.text


def test_only_a_machine_without_torch_makes_it_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor.quiet, "watched", lambda: None)
    monkeypatch.setattr(doctor, "TOOLS", {})
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / ".20261120T100000Z-a-2t.journal.jsonl").write_text("")
    assert main(["doctor", "--records", str(tmp_path)]) == 1
    assert "unfinished: tiny (1)" in capsys.readouterr().out


def test_this_machine_is_looked_at_and_torch_comes_last(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = [sys.executable, "-m", "experiments", "doctor", "--records", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "This machine can measure; " in done.stdout.splitlines()[-1]
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing"
    code = "import sys, experiments.harness.doctor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
