"""Builds that are ended by a signal at a random moment.

Afterwards every paper is whole, nothing runs on, and the next build gives the same bytes and leaves
nothing behind.  What runs on is read off ``/proc``, so this needs Linux.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.test_freshness import BOTH, ONE, build, digests, slower, write_project

#: Ended by the first, a build can tidy up itself.
POLITE = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_WHOLES = ("html", "qmd", "tex", "values", "pdf")
_GRACE_S = 10.0


def usual_signals() -> None:
    """Ignore none, whatever the tests were started by: ``nohup`` and ``&`` ignore some."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def start(project: Path, *arguments: str, jobs: int = 2) -> subprocess.Popen[str]:
    """A build in a session and with a temporary folder of its own, both known by the project."""
    temporary(project).mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "build.py", *BOTH, "--engine", "typst", f"--jobs={jobs}", *arguments],
        cwd=project,
        env={**os.environ, "TMPDIR": str(temporary(project)), "PYTHONPATH": str(project)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=usual_signals,  # noqa: PLW1509  (no threads here)
    )


def temporary(project: Path) -> Path:
    """The temporary folder of the builds of ``project``."""
    return project.with_name(f"{project.name}-tmp")


def kill_once(
    project: Path, moment_s: float, number: int, expected: Mapping[str, str], jobs: int = 2
) -> str | None:
    """Build, send the signal ``number`` after ``moment_s``, and build again.

    ``expected`` are the digests that an undisturbed build gives.  Returns what was wrong, or None.
    """
    outside, before = files_outside(project), wholes(digests(project))
    process = start(project, jobs=jobs)
    time.sleep(moment_s)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    checks: tuple[Callable[[], str | None], ...] = (
        lambda: _is_polite(project, process.returncode, number, errors),
        lambda: _are_whole(wholes(digests(project)), before, wholes(expected)),
        lambda: _is_quiet(project, process.pid),
        lambda: _is_the_same(project, expected),
        lambda: None if files_outside(project) == outside else "a file outside out/ changed",
    )
    return next((wrong for check in checks if (wrong := check()) is not None), None)


def _is_polite(project: Path, code: int, number: int, errors: str) -> str | None:
    if number not in POLITE:
        return None
    if _starting(errors):
        return None
    if "Traceback" in errors:
        return f"a traceback was printed: {errors[-400:]!r}"
    # Before and after it works, nothing has to be removed and the system ends it.
    if code not in (0, 128 + number, -number):
        return f"it ended with {code} after the signal {number}"
    left = left_behind(project)
    return f"it left {', '.join(left)}" if left else None


def _starting(errors: str) -> bool:
    """Whether Ctrl-C met Python itself, before the first line of the build could see to it."""
    ours = "build.py" in errors and "import signal" not in errors
    return errors.rstrip().endswith("KeyboardInterrupt") and not ours


def _are_whole(
    now: Mapping[str, dict[str, str]],
    before: Mapping[str, dict[str, str]],
    after: Mapping[str, dict[str, str]],
) -> str | None:
    torn = [kind for kind in _WHOLES if now[kind] not in (before[kind], after[kind])]
    return f"neither old nor new: {', '.join(torn)}" if torn else None


def _is_quiet(project: Path, session: int) -> str | None:
    deadline = time.monotonic() + _GRACE_S
    while (running := alive(session, str(project))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return f"still running: {running}" if running else None


def _is_the_same(project: Path, expected: Mapping[str, str]) -> str | None:
    _, errors = (again := start(project)).communicate(timeout=300)
    if again.returncode != 0:
        return f"the next build failed: {errors[-400:]!r}"
    now, left = digests(project), left_behind(project)
    names = sorted(name for name in now.keys() | expected if now.get(name) != expected.get(name))
    if names:
        return f"the next build gives other bytes: {', '.join(names[:5])}"
    return f"the next build left {', '.join(left)}" if left else None


def wholes(files: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The digests of one study's output, by what is replaced in one step."""
    found: dict[str, dict[str, str]] = {name: {} for name in _WHOLES}
    for name, digest in files.items():
        kind, _, rest = name.partition("/")
        if kind in found and rest.startswith(ONE):
            found[kind][rest] = digest
    return found


def left_behind(project: Path) -> list[str]:
    """What no build leaves: scratch in ``out/`` and anything in its temporary folder."""
    folders = [*(project / "out").glob(".scratch*"), *(project / "out").glob("*.tmp")]
    return sorted(path.name for path in (*folders, *temporary(project).iterdir()))


def files_outside(project: Path) -> dict[str, str]:
    """The digests of the project's files that are not in ``out/``."""
    files = digests(project, ".").items()
    made = ("out/", "__pycache__")
    return {name: digest for name, digest in files if not any(part in name for part in made)}


def alive(session: int, mark: str) -> list[str]:
    """The commands that run in the session, or with ``mark`` in their environment (Linux)."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            marked = os.fsencode(mark) in (folder / "environ").read_bytes()
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if fields[0] != "Z" and (int(fields[3]) == session or marked):
            found.append(os.fsdecode(b" ".join(words))[:200])
    return found


class Prepared(NamedTuple):
    """A project with something to build, what that gives, and how long it takes."""

    project: Path
    expected: dict[str, str]
    seconds: float


def prepare(room: Path) -> Prepared:
    """The project that is copied for each attack; made once in ``room``."""
    project = room / "kills"
    if not project.exists():
        build(write_project(project))
        slower(project)
    rehearsal = room / "rehearsal"
    shutil.rmtree(rehearsal, ignore_errors=True)
    shutil.copytree(project, rehearsal)
    began = time.monotonic()
    start(rehearsal).communicate(timeout=300)
    return Prepared(project, digests(rehearsal), time.monotonic() - began)


_PREPARED: dict[Path, Prepared] = {}
