"""What can go wrong while a build writes: the last whole output stays, and the next build is right.

Uses the small project of ``test_freshness``.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from report.engine.manifest import INDEX, MANIFEST
from tests.kills import wholes
from tests.test_freshness import BOTH, ONE, build, built, digests, project, ran, slower

__all__ = ["built", "project"]


def start(project: Path, **more: object) -> subprocess.Popen[str]:
    """A build that goes on by itself."""
    return subprocess.Popen(
        [sys.executable, "build.py", *BOTH, "--engine", "typst", "--jobs", "2"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,  # type: ignore[call-overload]
    )


@pytest.fixture(scope="module")
def after(built: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The output of the changed project, built without any accident."""
    changed = shutil.copytree(built, tmp_path_factory.mktemp("after") / "project")
    slower(changed)
    build(changed)
    return digests(changed)


def test_two_builds_at_once_take_turns(project: Path, after: dict[str, str]) -> None:
    slower(project)
    builds = [start(project), start(project)]
    said = [process.communicate(timeout=300) for process in builds]
    assert [process.returncode for process in builds] == [0, 0], said
    assert digests(project) == after


def test_a_damaged_manifest_is_made_again(project: Path, built: Path) -> None:
    """As ``test_engine`` and ``test_damaged_out`` know of any damage."""
    (project / "out" / MANIFEST).write_bytes(b"{")
    (project / "out" / INDEX).write_bytes(b"{")
    build(project)
    assert digests(project) == digests(built)
    assert ran(project) == set()


def test_damaged_kept_values_are_not_believed(project: Path, built: Path) -> None:
    """What is unpickled is first compared with its digest."""
    (project / "out" / ".steps" / ONE / "findings.pickle").write_bytes(b"cos\nsystem\n(S'x'\ntR.")
    assert ran(project) == {f"{ONE}/study"}
    assert digests(project) == digests(built)


def test_a_full_disk_keeps_the_last_output(project: Path) -> None:
    """No file may grow beyond some kilobytes, as on a disk that is nearly full."""
    before = wholes(digests(project))
    slower(project)

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    process = start(project, preexec_fn=small)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "cannot be written (File too large)" in errors
    assert "Traceback" not in errors
    assert wholes(digests(project)) == before
    assert not list((project / "out").glob(".scratch-*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for the superuser")
def test_a_read_only_folder_is_said_in_one_sentence(project: Path) -> None:
    before = digests(project)
    (project / "out").chmod(0o555)
    try:
        assert ran(project) == set(), "nothing to do needs no permission"
        slower(project)
        process = start(project)
        _, errors = process.communicate(timeout=300)
    finally:
        (project / "out").chmod(0o755)
    assert process.returncode == 1
    assert "cannot be written (Permission denied)" in errors
    assert digests(project) == before


def test_a_file_where_the_output_belongs_is_said_in_one_sentence(project: Path) -> None:
    shutil.rmtree(project / "out")
    (project / "out").write_text("in the way")
    process = start(project)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "cannot be written" in errors
    assert "Traceback" not in errors
