"""A build does its work wherever its streams lead, whatever its folders are called.

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

from report.engine.pipeline import ROOT
from tests.test_freshness import ONE, build, built, digests, project, replace

__all__ = ["built", "project"]

change_page = replace("templates/html/page.html", "<main", '<main data-new="1"')


def shell(
    project: Path, arguments: str, *, files: int | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """``python build.py`` as the shell runs it, which also sees to the redirections."""

    def limit() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    return subprocess.run(
        ["bash", "-c", f'"$0" build.py {arguments}', sys.executable],
        cwd=project,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=limit,
    )


@pytest.fixture(scope="module")
def pages(built: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a build of the pages makes after the change, by digest."""
    changed = shutil.copytree(built, tmp_path_factory.mktemp("pages") / "project")
    change_page(changed)
    assert shell(changed, f"{ONE} --html").returncode == 0
    return digests(changed)


@pytest.mark.parametrize(
    "redirection",
    [
        "2>&-", ">&-", "<&-", "<&- >&- 2>&-", ">&- 2>&-", ">/dev/full", "2>/dev/full",
        ">/dev/full 2>&1", "2>&1 | true", "| true",
    ],
)  # fmt: skip
def test_output_that_cannot_be_written_is_dropped(
    project: Path, pages: dict[str, str], redirection: str
) -> None:
    change_page(project)
    ended = shell(project, f"{ONE} --html {redirection}; exit ${{PIPESTATUS[0]}}")
    assert ended.returncode == 0, ended.stderr
    assert "Error" not in ended.stderr
    assert digests(project) == pages


@pytest.mark.parametrize("command", ["--list", "--dry-run", f"{ONE} --check --format json"])
def test_a_result_that_is_lost_is_an_error(project: Path, command: str) -> None:
    ended = shell(project, f"{command} >/dev/full")
    assert ended.returncode == 1
    sentence = "standard output: cannot be written (No space left on device); send it elsewhere."
    assert ended.stderr == f"error: {sentence}\n"
    assert shell(project, f"{command} | true; exit ${{PIPESTATUS[0]}}").stderr == ""


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_a_name_that_the_terminal_cannot_show_is_named_by_numbers(
    project: Path, environment: dict[str, str]
) -> None:
    ended = shell(project, f"{ONE} --html --out 'aus gäbe'", **environment)
    assert ended.returncode == 0, ended.stderr
    assert f"aus g\\xe4be/html/{ONE}" in ended.stdout or "aus g\\udcc3\\udca4be" in ended.stdout


@pytest.mark.parametrize("files", [64, 32])
def test_few_open_files_are_enough(project: Path, built: Path, files: int) -> None:
    shutil.rmtree(project / "out")
    ended = shell(project, f"{ONE} --engine typst --jobs 16", files=files)
    assert ended.returncode == 0, ended.stderr
    pdf = f"out/pdf/{ONE}.pdf"
    assert (project / pdf).read_bytes() == (built / pdf).read_bytes()


def test_too_few_open_files_are_one_sentence(project: Path) -> None:
    change_page(project)
    ended = shell(project, f"{ONE} --html 2>&1 >&- | grep -v '^\\['", files=10)
    assert "Too many open files" in ended.stdout
    assert "Traceback" not in ended.stdout


@pytest.mark.parametrize(
    "name",
    ["%20 ~a?b#c&d;e'f\"g$h", "-k*l[m]\n\\n研究 ü", os.fsdecode(b"\xff\xfe")],
    ids=ascii,
)
def test_folders_may_have_any_name(built: Path, tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    moved = shutil.copytree(built, place / "project", ignore=shutil.ignore_patterns("out"))
    (moved / "data").rename(place / "data")
    build(moved, "--out", str(place / "out"), "--data", str(place / "data"))
    assert digests(place, "out") == digests(built)


@pytest.mark.parametrize(
    ("redirection", "code"),
    [("2>&- >&- <&-", 0), ("| true; exit ${PIPESTATUS[0]}", 0), (">/dev/full", 1)],
)
def test_the_measuring_command_needs_no_stream(redirection: str, code: int) -> None:
    ended = subprocess.run(
        ["bash", "-c", f'"$0" -m experiments list {redirection}', sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, len(ended.stderr.splitlines())) == (code, code), ended.stderr
