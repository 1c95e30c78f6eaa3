"""What a command prints of a broken paper names a file that is there, and no folder of its own.

Uses the small project of ``test_freshness``; ``render/test_render_problems`` has every problem.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from report.engine import task
from tests.test_freshness import ONE, built, project, replace

__all__ = ["built", "project"]

TEMPLATE = f"templates/papers/{ONE}.qmd.j2"


@pytest.mark.parametrize(
    ("file", "old", "new", "arguments"),
    [
        (TEMPLATE, "\n# Method", "\n::: {.note}\n\n# Method", "--html"),
        (TEMPLATE, "\n# Method", "\n```{=typst}\n#nosuch()\n```\n\n# Method", "--pdf"),
        (TEMPLATE, "\n# Method", "\nBy [@nobody].\n\n# Method", "--html --verify"),
        (TEMPLATE, "keywords: [", "keywords: [[", "--html"),
        ("data/references.bib", "@", "@book{bad,\n  year = 1\n  title = {X}\n}\n\n@", "--html"),
    ],
)
def test_a_command_names_what_to_mend(
    project: Path, tmp_path: Path, file: str, old: str, new: str, arguments: str
) -> None:
    replace(file, old, new)(project)
    ended = subprocess.run(
        [sys.executable, "build.py", ONE, *arguments.split(), "--engine", "typst", "--jobs", "1"],
        cwd=project,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 1
    said = [line for line in (ended.stdout + ended.stderr).splitlines() if file in line]
    assert said, ended
    assert f"{file}:" in said[0]
    assert (project / file).is_file()
    assert not any(part in line for line in said for part in (".scratch-", str(tmp_path)))
    assert all(len(line) <= 340 for line in said), "one sentence, and which build it was"


@pytest.mark.parametrize("copied", [False, True])
def test_an_error_of_a_step_names_the_output_and_not_the_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: bool
) -> None:
    out = tmp_path / "out"
    stage = out / ".scratch-x" / ONE

    def full(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", target)

    def perform(job: task.Task) -> task.Done:
        if copied:
            (tmp_path / "source").mkdir()
            (tmp_path / "source" / "x.pdf").touch()
            shutil.copytree(tmp_path / "source", job.stage / "pdf", copy_function=full)
        full("", str(job.stage / "pdf" / "x.pdf"))
        return task.Done(())

    monkeypatch.setattr(task, "import_action", lambda _: SimpleNamespace(perform=perform))
    failure = task.do(task.Task("id", ONE, "typst", stage, out, out, {})).failure
    assert failure is not None
    assert failure.startswith(f"{out}/pdf/x.pdf: cannot be written (")
    assert "No space left on device" in failure and "make room" in failure
