"""Completion of the commands, asked as a shell asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from report.engine.pipeline import ROOT


@pytest.mark.parametrize(
    ("command", "line", "expected"),
    [
        (["build.py"], "build.py --eng", {"--engine"}),
        (["build.py"], "build.py conv_s", {"conv_scaling"}),
        (["-m", "experiments"], "experiments run --dev", {"--device"}),
    ],
)
def test_a_shell_is_told_how_a_line_goes_on(
    command: list[str], line: str, expected: set[str], tmp_path: Path
) -> None:
    answer = tmp_path / "answer"
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run(
        [sys.executable, *command], cwd=ROOT, env={**os.environ, **asked}, check=True, timeout=60
    )
    assert {word.strip() for word in answer.read_text().splitlines()} == expected
