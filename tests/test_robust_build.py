"""What can go wrong while a build writes: the last whole output stays, and the next build is right.

Uses the small project of ``test_freshness``.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from report.engine.manifest import INDEX, MANIFEST
from tests.test_freshness import BOTH, ONE, build, built, digests, project, ran, slower

__all__ = ["built", "project"]

#: What is replaced as a whole.
_WHOLES = ("html", "qmd", "tex", "values", "pdf")


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


def wholes(project: Path) -> dict[str, dict[str, str]]:
    """The digests of one study's output, by what is replaced in one step."""
    found: dict[str, dict[str, str]] = {name: {} for name in _WHOLES}
    for name, digest in digests(project).items():
        kind, _, rest = name.partition("/")
        if kind in found and rest.startswith(ONE):
            found[kind][rest] = digest
    return found


@pytest.fixture(scope="module")
def after(built: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The output of the changed project, built without any accident."""
    changed = shutil.copytree(built, tmp_path_factory.mktemp("after") / "project")
    slower(changed)
    build(changed)
    return digests(changed)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.85, 0.95])
def test_a_killed_build_leaves_whole_papers(
    project: Path, after: dict[str, str], share: float, tmp_path: Path
) -> None:
    rehearsal = shutil.copytree(project, tmp_path / "rehearsal")
    slower(rehearsal)
    began = time.monotonic()
    start(rehearsal).communicate(timeout=300)
    usual = time.monotonic() - began
    old, new = wholes(project), wholes(rehearsal)
    slower(project)
    process = start(project)
    time.sleep(share * usual)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    now = wholes(project)
    for kind in _WHOLES:
        assert now[kind] in (old[kind], new[kind]), kind
    build(project)
    assert digests(project) == after
    assert not list((project / "out").glob(".scratch-*"))


def test_the_workers_of_a_killed_build_end(project: Path) -> None:
    slower(project)
    process = start(project, start_new_session=True)
    time.sleep(1.5)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    deadline = time.monotonic() + 30
    while _session(process.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not _session(process.pid)


def _session(leader: int) -> list[int]:
    """The processes that still run in the session of ``leader`` (Linux)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_two_builds_at_once_take_turns(project: Path, after: dict[str, str]) -> None:
    slower(project)
    builds = [start(project), start(project)]
    said = [process.communicate(timeout=300) for process in builds]
    assert [process.returncode for process in builds] == [0, 0], said
    assert digests(project) == after


@pytest.mark.parametrize("damage", [b"", b"{", b"\x00" * 4096, b'{"version": 1}'])
def test_a_damaged_manifest_is_made_again(project: Path, damage: bytes, built: Path) -> None:
    (project / "out" / MANIFEST).write_bytes(damage)
    (project / "out" / INDEX).write_bytes(damage)
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
    before = wholes(project)
    slower(project)

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    process = start(project, preexec_fn=small)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "cannot be written (File too large)" in errors
    assert "Traceback" not in errors
    assert wholes(project) == before
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
