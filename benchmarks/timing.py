"""Runs a command as a child process: wall time, processor time and peak memory of that run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from benchmarks.results import Sample

LIMIT_S: Final = 900.0
#: Bytes of a command's output that are kept: the engines tell of each task in one line.
_TAIL: Final = 200_000
#: ru_maxrss is in KiB on Linux.
_KIB: Final = 1024


class CommandError(Exception):
    """A timed command did not end well."""


@dataclass(frozen=True)
class Command:
    """What to run, where, and the whole environment that it sees."""

    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]


def run(command: Command, limit_s: float = LIMIT_S) -> tuple[Sample, str]:
    """Run ``command`` to its end; the sample, and the end of what it printed.

    Processor time and peak memory include the processes that the command started and waited for;
    the peak is that of the largest of them, not their sum.  Raises ``CommandError`` with the end
    of the output for an exit code other than 0, and after ``limit_s`` seconds.
    """
    with tempfile.TemporaryFile() as log:
        start = time.perf_counter()
        process = subprocess.Popen(
            command.arguments,
            cwd=command.folder,
            env=dict(command.environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with _ended_after(limit_s, process.pid):
            _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        _end(process.pid)  # servers that a peer leaves behind would disturb whoever is next
        process.returncode = os.waitstatus_to_exitcode(status)
        output = _tail(log)
    if process.returncode != 0:
        said = " ".join(command.arguments)
        raise CommandError(f"{said}: exit code {process.returncode} in {command.folder}\n{output}")
    sample = Sample(
        wall_s=wall, cpu_s=usage.ru_utime + usage.ru_stime, peak_bytes=usage.ru_maxrss * _KIB
    )
    return sample, output


def plain_environment(**more: str) -> dict[str, str]:
    """The variables that every timed command sees: where programs are, and one locale."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "TZ": "UTC", **more}


def first_on_path(folders: Sequence[Path]) -> str:
    """The search path with ``folders`` before all others."""
    return os.pathsep.join((*map(str, folders), os.environ.get("PATH", os.defpath)))


@contextlib.contextmanager
def _ended_after(limit_s: float, group: int) -> Iterator[None]:
    timer = threading.Timer(limit_s, _end, (group,))
    timer.start()
    try:
        yield
    except BaseException:
        _end(group)  # the user interrupts the benchmark, and the command with it
        raise
    finally:
        timer.cancel()


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _tail(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - _TAIL))
    return log.read().decode("utf-8", "replace")
