"""A run of a command: how long it took, and the memory of its largest process."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
CORES: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


class Sample(NamedTuple):
    """One run of a command; ``peak_bytes`` is the resident memory of its largest process."""

    wall_s: float
    peak_bytes: int = 0


def environment() -> str:
    """The machine, the moment and the code, as the page prints them."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").split("\n") if info.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    command = ["git", "describe", "--always", "--dirty"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return (
        f"{next(named, platform.processor() or 'unknown processor')}, {CORES} cores, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}; commit "
        f"{said.strip() or 'unknown'}; {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}, load average "
        f"{os.getloadavg()[0]:.2f}"
    )


def run_python(folder: Path, *arguments: str) -> tuple[Sample, str]:
    """Run this interpreter in ``folder`` to its end; the sample, and what it printed.

    Raises ``RuntimeError`` with the output for an exit code other than 0.
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
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        output = log.read().decode("utf-8", "replace")
    if process.returncode != 0:
        said = " ".join(arguments)
        raise RuntimeError(f"{said}: exit code {process.returncode} in {folder}\n{output}")
    return Sample(wall, usage.ru_maxrss * 1024), output  # told in KiB on Linux
