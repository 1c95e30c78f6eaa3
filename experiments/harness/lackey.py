"""Executed multiply-adds without hardware counters: a whole batch of cases under valgrind's lackey.

One process of valgrind serves all cases, since importing torch takes a minute under it, and each
process that it forks writes a log of its own.  One thread a process; as many cases at once as there
are cores.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from experiments.harness.journal import Called, Count, Done, Failed
from experiments.harness.processes import working
from experiments.harness.text import last_line, without_paths
from experiments.harness.worker import Task
from report.errors import MeasurementError
from report.instruments.counters.lackey import TOOL

_OPTIONS: Final = ("--tool=lackey", "--basic-counts=no", "--detailed-counts=yes")


def unavailable() -> str | None:
    """Why nothing can be counted here, with the remedy; None where it can."""
    if not hasattr(os, "fork"):
        return "valgrind does not run on this system"
    if shutil.which("valgrind") is None:
        return "valgrind is not installed; install it with: apt-get install valgrind"
    return None


def count(task: Task) -> Iterator[Count | None]:
    """Run ``task`` under lackey and tell of every case as it is done; None for each tick.

    Raises ``MeasurementError`` with what valgrind or torch said last, if all of it fails.  Closing
    the generator ends all processes.
    """

    def under(folder: Path) -> tuple[str, ...]:
        return ("valgrind", *_OPTIONS, f"--log-file={folder}/%p.log")

    processes: dict[int, dict[str, int]] = {}
    failed: dict[int, str] = {}
    with working(task, {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}, under) as running:
        for message in running.messages():
            match message:
                case Called(case=case, role=role, pid=pid):
                    processes.setdefault(case, {})[role] = pid
                case Failed(case=case, reason=reason):
                    failed.setdefault(case, reason)
                case Done(case=case, reason=ended):
                    why = failed.get(case) or ended
                    pids = {} if why else processes.pop(case, {})
                    logs = {role: _log(running.folder, pid) for role, pid in sorted(pids.items())}
                    yield Count(tool=TOOL, case=case, logs=logs, reason=why)
                case _:
                    yield None
        code, said = running.process.returncode, running.said()
    if code != 0:
        raise MeasurementError(f"lackey ended with exit code {code}: {last_line(said)}")


def _log(folder: Path, pid: int) -> str:
    return without_paths((folder / f"{pid}.log").read_text(errors="replace"))
