"""The attacks of ``tests.fuzz`` on what a build reads, for some seconds."""

from __future__ import annotations

import subprocess
import sys

from report.engine.pipeline import ROOT
from tests.fuzz.__main__ import KINDS


def test_no_attack_goes_wrong() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--seconds", "20"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stdout
    rows = finished.stdout.splitlines()[1:]
    assert len(rows) >= sum(KINDS.values()), "every kind has had its turn"
