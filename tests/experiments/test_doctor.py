"""What the doctor says of a machine: each check for itself, and the whole of this one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.harness import doctor
from experiments.harness.doctor import Check

GIB = 2**30


@pytest.mark.parametrize(
    ("check", "level", "words"),
    [
        (doctor.processors(2, 2, 2, None), "ok", "2 threads by default"),
        (doctor.processors(2, None, 2, 2.0), "ok", ""),
        (doctor.processors(8, 4, 8, None), "note", "--threads 4"),
        (doctor.processors(64, 64, 64, 2.5), "problem", "--threads 2"),
        (doctor.processors(4, 4, 4, 0.5), "problem", "--threads 1"),
        (doctor.free_memory(10 * GIB, 16 * GIB), "ok", "10.0 of 16.0 GiB"),
        (doctor.free_memory(2 * GIB - 1, 16 * GIB), "note", ""),
        (doctor.free_memory(2 * GIB, 16 * GIB, 16 * GIB), "ok", ""),
        (doctor.free_memory(10 * GIB, 16 * GIB, GIB), "problem", "1.0 GiB in all"),
    ],
)
def test_each_check_says_its_level_and_what_to_do(check: Check, level: str, words: str) -> None:
    assert check.level == level and words in check.text


@pytest.mark.parametrize(("busy", "level"), [(None, "ok"), ("others used 2.0 of 2", "problem")])
def test_this_machine_is_looked_at_and_torch_comes_last(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    busy: str | None,
    level: str,
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(doctor.quiet, "unavailable", lambda: None)
    monkeypatch.setattr(doctor.quiet, "watched", lambda: busy)
    assert main(["doctor", "--records", str(tmp_path)]) == 0
    *lines, end = capsys.readouterr().out.splitlines()
    levels = {line.split()[1]: line.split()[0] for line in lines if line[0] != " "}
    assert levels["now"] == level and levels["runs"] == "ok" and [*levels][-1] == "PyTorch"
    problems, notes = ([*levels.values()].count(word) for word in ("problem", "note"))
    assert end == f"This machine can measure; problems: {problems}, notes: {notes}."
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing"
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / ".20261120T100000Z-a-2t.journal.jsonl").write_text("")
    assert main(["doctor", "--records", str(tmp_path)]) == 1
    assert "unfinished: tiny (1)" in capsys.readouterr().out
