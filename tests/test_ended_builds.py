"""A build that is ended ends all that it has started, and leaves nothing behind (Linux).

Uses the small project of ``test_freshness``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from unittest.mock import Mock

import pytest

from report.engine.pipeline import ROOT
from report.engine.scratch import remove_abandoned, scratch_folder
from report.engine.task import Task
from report.engine.workers import Processes, Workers
from report.system.signals import exit_on_signals
from tests.kills import Prepared, alive, kill_once, left_behind, prepare, start
from tests.test_freshness import build, built, digests, project, slower
from tests.test_robust_build import after

__all__ = ["after", "built", "project"]


def until(condition: Callable[[], object], limit_s: float = 30) -> None:
    """Wait for something that happens by itself."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def scratch(project: Path) -> list[Path]:
    return list((project / "out").glob(".scratch-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_a_build_that_works(project: Path, number: int) -> None:
    slower(project)
    process = start(project)
    until(lambda: scratch(project))
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert left_behind(project) == []
    until(lambda: not alive(process.pid, str(project)))


def test_ctrl_c_while_modules_are_imported_ends_without_a_traceback(project: Path) -> None:
    module = project / "report" / "errors.py"
    reached = project / "reached"
    waiting = f"import pathlib, time\npathlib.Path({str(reached)!r}).touch()\ntime.sleep(30)\n"
    text = module.read_text("utf-8")
    future = "from __future__ import annotations\n"
    module.write_text(text.replace(future, future + waiting, 1), "utf-8")
    process = start(project)
    until(reached.exists)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in errors


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("kills"))


@pytest.mark.parametrize(
    ("share", "number", "jobs"),
    [
        *((share, signal.SIGKILL, 2) for share in (0.1, 0.3, 0.5, 0.7, 0.85, 0.95)),
        (0.4, signal.SIGKILL, 4),
        (0.6, signal.SIGTERM, 4),
    ],
)
def test_papers_stay_whole_and_the_next_build_is_as_if_nothing_had_happened(
    prepared: Prepared, tmp_path: Path, share: float, number: int, jobs: int
) -> None:
    killed = shutil.copytree(prepared.project, tmp_path / "killed")
    assert kill_once(killed, share * prepared.seconds, number, prepared.expected, jobs) is None


_PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from report.render.command import run
print("begun", flush=True)
ThreadPoolExecutor(1).submit(run, ["sh", "-c", "sleep 600 & sleep 600"], Path("/"), 600).result()
"""


def test_programs_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """As latexmk does, which starts pdflatex, when nothing can be tidied up."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
    )

    def sleeping() -> list[str]:
        return [words for words in alive(process.pid, str(tmp_path)) if words.startswith("sleep")]

    try:
        until(lambda: len(sleeping()) == 2)
        process.kill()
        process.communicate()
        until(lambda: not sleeping(), 10)
    finally:
        process.kill()
        for folder in Path("/proc").glob("[0-9]*"):
            if _says(folder / "environ", os.fsencode(tmp_path)):
                os.kill(int(folder.name), signal.SIGKILL)


def _says(path: Path, words: bytes) -> bool:
    try:
        return words in path.read_bytes()
    except OSError:
        return False


def workers(project: Path) -> list[int]:
    """The worker processes of the builds of ``project``."""
    return [
        int(folder.name)
        for folder in Path("/proc").glob("[0-9]*")
        if _says(folder / "environ", os.fsencode(project))
        and _says(folder / "cmdline", b"spawn_main")
    ]


def test_the_workers_of_a_comparison_end_with_it(project: Path) -> None:
    before = shutil.copytree(project / "data", project.parent / "before")
    slower(project)
    process = start(project, "--diff", str(before))
    until(lambda: len(workers(project)) == 2)
    process.kill()
    process.communicate()
    until(lambda: not workers(project), 10)


def test_a_worker_that_is_killed_is_a_sentence(project: Path, after: dict[str, str]) -> None:
    slower(project)
    process = start(project)

    until(lambda: workers(project))
    for worker in workers(project):
        os.kill(worker, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "its process was killed, as systems do for want of memory" in errors
    assert "Traceback" not in errors
    build(project)
    assert digests(project) == after


@pytest.mark.parametrize("noticed", [BrokenProcessPool, OSError("handle is closed")])
def test_work_is_lost_when_a_worker_is_killed_while_others_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noticed: Exception | type[Exception]
) -> None:
    monkeypatch.setattr(ProcessPoolExecutor, "submit", Mock(side_effect=noticed))
    task = Task("x/study", "x", "study", tmp_path, tmp_path, tmp_path, {})
    with Workers(2) as workers:
        workers.expect("figure")
        with pytest.raises(BrokenExecutor):
            workers.submit(task, alone=False).result()


def test_processes_end_whatever_they_do() -> None:
    with Processes(2) as processes:
        slow = [processes.submit(time.sleep, 600) for _ in range(2)]
        until(lambda: all(future.running() for future in slow))
    for future in slow:
        with pytest.raises(BrokenExecutor):
            future.result()


def test_the_sides_of_a_comparison_whose_workers_are_killed_are_refused(
    project: Path,
) -> None:
    before = shutil.copytree(project / "data", project.parent / "before")
    slower(project)
    process = start(project, "--diff", str(before))

    until(lambda: len(workers(project)) == 2)
    for worker in workers(project):
        os.kill(worker, signal.SIGKILL)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "its process was killed" in printed + errors
    assert "Traceback" not in errors


def test_a_folder_is_removed_when_nobody_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = (
        "from report.engine.scratch import scratch_folder\n"
        "with scratch_folder() as folder:\n"
        "    (folder / 'a').mkdir()\n"
        "    print(flush=True)\n"
        "    input()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    with scratch_folder() as own:
        remove_abandoned()
        assert own.exists()
        assert len(list(tmp_path.iterdir())) == 2, "the other one is used too"
    process.kill()
    process.communicate()
    remove_abandoned()
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As SIGHUP is under nohup; and the first of the others counts."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit) as ended, exit_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
        assert ended.value.code == 128 + signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
