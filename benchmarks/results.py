"""What a run of the benchmarks leaves in ``results.json``: raw samples, and where they were taken.

A part (``builds``, ``scale``) is measured in one run and carries its own environment, because
ratios are only formed within one part.
"""

from __future__ import annotations

import os
import platform
import subprocess
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
    STYLE = "LaTeX style changed"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a command; ``peak_bytes`` is the resident memory of its largest process."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """All samples of one tool in one scenario, and what was wrong with its outputs afterwards."""

    tool: str
    scenario: Scenario
    samples: tuple[Sample, ...]
    faults: tuple[str, ...] = ()


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One size on one axis of the scale; ``input_bytes`` is what was read, where that is known."""

    axis: str
    size: int
    samples: tuple[Sample, ...]
    input_bytes: int | None = None


class Builds(msgspec.Struct, frozen=True, kw_only=True):
    """The part in which ridgepoint and its bare engines take turns."""

    environment: str
    timed: tuple[Timed, ...]


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """The part that grows records, cases and studies."""

    environment: str
    points: tuple[Point, ...]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in ``results.json``; a part that was never measured is null."""

    builds: Builds | None = None
    scale: Scale | None = None


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
