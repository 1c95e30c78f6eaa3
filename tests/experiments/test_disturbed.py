"""A busy loop on every core while a run measures: its rounds are marked and measured again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import measured

from experiments.harness import quiet

pytestmark = pytest.mark.skipif(
    quiet.unavailable() is not None, reason="this system does not say what others use"
)


@pytest.fixture
def busy() -> Iterator[None]:
    """Two loops a core that do nothing but run."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def test_rounds_beside_busy_loops_are_marked_and_repeated(busy: None, tmp_path: Path) -> None:
    words = ("subject=layer", "batch=16", "pass=forward", "layout=contiguous")
    settings = [word for setting in words for word in ("--set", setting)]
    (case,) = measured("conv_scaling", tmp_path / "data", *settings).record.cases
    planned = 2
    kept = [round_ for round_ in case.rounds if round_.policy == "retained"]
    assert case.status == "ok"
    assert len(kept) > planned, "what was disturbed is measured again"
    assert any(round_.disturbance for round_ in case.rounds)
