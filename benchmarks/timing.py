"""Runs a command as a child process: wall time, processor time and peak memory of that run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from benchmarks.results import Sample

LIMIT_S: Final = 900.0
#: ru_maxrss is in KiB on Linux.
_KIB: Final = 1024


class CommandError(Exception):
    """A timed command did not end well."""


def run_python(folder: Path, *arguments: str, limit_s: float = LIMIT_S) -> tuple[Sample, str]:
    """Run this interpreter in ``folder`` to its end; the sample, and what it printed.

    Processor time and peak memory include the processes that it started and waited for; the peak is
    that of the largest of them, not their sum.  Raises ``CommandError`` with the output for an exit
    code other than 0, and after ``limit_s`` seconds.
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with tempfile.TemporaryFile() as log:
        start = time.perf_counter()
        process = subprocess.Popen(
            (sys.executable, *arguments),
            cwd=folder,
            env={**kept, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        timer = threading.Timer(limit_s, _end, (process.pid,))
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            _end(process.pid)  # the user interrupts the benchmark, and the command with it
            raise
        finally:
            timer.cancel()
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        output = log.read().decode("utf-8", "replace")
    if process.returncode != 0:
        said = " ".join(arguments)
        raise CommandError(f"{said}: exit code {process.returncode} in {folder}\n{output}")
    cpu = usage.ru_utime + usage.ru_stime
    return Sample(wall_s=wall, cpu_s=cpu, peak_bytes=usage.ru_maxrss * _KIB), output


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
