"""A run of a command, and what a run of the benchmarks leaves in ``results.json``: raw samples."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).resolve().parent.parent
CORES: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


class Scenario(StrEnum):
    """What was changed since the last build, in the words of the tables."""

    COLD = "cold"
    NOOP = "nothing changed"
    RECORD = "one value of data changed"
    PROSE = "one word changed"
    DRAWING = "one drawing function changed"
    TOUCH = "touched only"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a command; ``peak_bytes`` is the resident memory of its largest process."""

    wall_s: float
    cpu_s: float | None = None
    peak_bytes: int = 0


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """All samples of one command of a part, ``at`` a scenario or a size."""

    part: str
    name: str
    at: str
    samples: tuple[Sample, ...]


class Results(msgspec.Struct, frozen=True):
    """Everything in ``results.json``; ``environments`` has those of the parts that were measured.

    Ratios are only formed within one part, which is measured in one run.
    """

    environments: dict[str, str] = {}
    series: tuple[Series, ...] = ()


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

    Processor time and peak memory include the processes that it started and waited for; the peak is
    that of the largest of them, not their sum.  Raises ``RuntimeError`` with the output for an exit
    code other than 0.
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
    cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024  # told in KiB on Linux
    return Sample(wall_s=wall, cpu_s=cpu, peak_bytes=peak), output
