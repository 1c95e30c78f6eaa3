"""Executed multiply-adds without hardware counters: a whole batch of cases under valgrind's lackey.

One process of valgrind serves all cases, and each process that it forks writes a log of its own.
One thread a process; as many cases at once as there are cores.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

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

INSTALL: Final = "apt-get install valgrind"

#: Seconds until torch is imported, multiply-adds a second and process, seconds a case besides: as
#: measured on one machine, to tell the time left before this one has shown its own pace.
START_S: Final = 65.0
RATE: Final = 18e6
CASE_S: Final = 2.0

_OPTIONS: Final = ("--tool=lackey", "--basic-counts=no", "--detailed-counts=yes")
_ROOT: Final = Path(__file__).parents[3]
_TICK_S: Final = 1.0


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
        file = folder / "plan.json"
        file.write_bytes(msgspec.json.encode(plan))
        with _started(file, folder) as process:
            yield from _events(process, folder)
            code = process.wait()
        if code != 0:
            said = last_line((folder / "stderr").read_text(errors="replace"))
            raise MeasurementError(f"lackey ended with exit code {code}: {said}")


@contextmanager
def _started(file: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """valgrind in a session of its own, which is ended whole if we leave early."""
    words = ["valgrind", *_OPTIONS, f"--log-file={folder}/%p.log"]
    words += [sys.executable, "-m", "experiments.harness.counters.lackey_worker", os.fspath(file)]
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            words,
            cwd=_ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _events(process: subprocess.Popen[bytes], folder: Path) -> Iterator[Event]:
    processes: dict[int, dict[str, int]] = {}
    errors: dict[int, str] = {}
    for line in _lines(process):
        match line:
            case None | Ready():
                yield line
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


def _lines(process: subprocess.Popen[bytes]) -> Iterator[Message | None]:
    """What the processes say, and None whenever they have said nothing for a second."""
    assert process.stdout is not None
    decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
    kept = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(_TICK_S):
                yield None
                continue
            read = os.read(process.stdout.fileno(), 2**16)
            if not read:
                return
            *whole, kept = (kept + read).split(b"\n")
            yield from map(decoder.decode, whole)
