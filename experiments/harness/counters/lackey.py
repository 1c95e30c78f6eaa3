"""Executed multiply-adds without hardware counters: a whole batch of cases under valgrind's lackey.

One process of valgrind serves all cases, and each process that it forks writes a log of its own.
One thread a process; as many cases at once as there are cores.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from experiments.harness import isolated
from experiments.harness.counters import lackey_worker
from experiments.harness.counters.plan import (
    Counted,
    Done,
    Ended,
    Event,
    Failed,
    Job,
    Message,
    Plan,
    Ready,
)
from experiments.harness.text import last_line, without_paths
from report.errors import MeasurementError
from report.system.subprocesses import started

INSTALL: Final = "apt-get install valgrind"

#: Seconds until torch is imported, multiply-adds a second and process, seconds a case besides: as
#: measured on one machine, to tell the time left before this one has shown its own pace.
START_S: Final = 65.0
RATE: Final = 18e6
CASE_S: Final = 2.0

_OPTIONS: Final = ("--tool=lackey", "--basic-counts=no", "--detailed-counts=yes")


def unavailable() -> str | None:
    """Why nothing can be counted here, with the remedy; None where it can."""
    if not hasattr(os, "fork"):
        return "valgrind does not run on this system"
    if shutil.which("valgrind") is None:
        return f"valgrind is not installed; install it with: {INSTALL}"
    return None


def seconds(job: Job) -> float:
    """How long a job lasts, about."""
    return CASE_S + job.calls * job.multiply_adds / RATE


def count(plan: Plan) -> Iterator[Event]:
    """Run ``plan`` under lackey and tell of every case as it is done.

    Raises ``MeasurementError`` with what valgrind or torch said last, if all of it fails.  Closing
    the generator ends all processes.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-lackey-") as name:
        folder = Path(name)
        errors = folder / "stderr"
        words = ["valgrind", *_OPTIONS, f"--log-file={folder}/%p.log"]
        words += isolated.command(partial(lackey_worker.main, plan), folder)
        # The lines of several processes do not mix, since each is appended by one write.
        with (
            (folder / "messages").open("ab") as messages,
            errors.open("wb") as stderr,
            started(
                words,
                cwd=isolated.ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                stdout=messages,
                stderr=stderr,
            ) as process,
        ):
            yield from _events(isolated.lines(process, folder / "messages"), folder)
        if process.returncode != 0:
            said = last_line(errors.read_text(errors="replace"))
            raise MeasurementError(f"lackey ended with exit code {process.returncode}: {said}")


def _events(lines: Iterable[bytes | None], folder: Path) -> Iterator[Event]:
    decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
    processes: dict[int, dict[str, int]] = {}
    errors: dict[int, str] = {}
    for line in lines:
        match line and decoder.decode(line):
            case None | Ready() as event:
                yield event
            case Ended(case=case, role=role, pid=pid):
                processes.setdefault(case, {})[role] = pid
            case Failed(case=case, error=error):
                errors.setdefault(case, error)
            case Done(case=case, error=how):
                reason = errors.get(case, how)
                pids = {} if reason else processes.pop(case, {})
                logs = {role: _log(folder, pid) for role, pid in sorted(pids.items())}
                yield Counted(case=case, logs=logs, reason=reason)


def _log(folder: Path, pid: int) -> str:
    return without_paths((folder / f"{pid}.log").read_text(errors="replace"))
