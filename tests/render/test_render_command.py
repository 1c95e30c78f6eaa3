"""Programs run with a limit and in a fixed environment."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from report.errors import RenderError
from report.render import pandoc
from report.render.command import run


def alive(stat: Path) -> bool:
    """Whether the process behind ``stat`` runs still; a zombie does not."""
    try:
        return stat.read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time, pathlib;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "pathlib.Path('pid').write_text(str(p.pid)); time.sleep(60)"
    )
    with pytest.raises(RenderError, match=r"was not done after 5\.5 s and was ended"):
        run([sys.executable, "-c", code], tmp_path, 5.5)
    child = Path("/proc") / (tmp_path / "pid").read_text() / "stat"
    # A busy machine takes a moment to carry a signal out.
    deadline = time.monotonic() + 30
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child)


def test_another_pandoc_than_pinned_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pandoc, "PANDOC_VERSION", "3.1")
    pandoc.pandoc_path.cache_clear()
    try:
        with pytest.raises(RenderError, match=r"found pandoc 3\.9 where 3\.1 is needed"):
            pandoc.pandoc_path()
    finally:
        pandoc.pandoc_path.cache_clear()
