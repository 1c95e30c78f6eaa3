"""Where and when a part is measured."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.peers.install import cores
from benchmarks.results import Environment

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Start:
    """What is noted before the first sample is taken."""

    moment: str
    load: float
    commit: str | None
    tree_clean: bool | None


def begin() -> Start:
    """Note the moment, the load of the machine, and the code that is about to be copied."""
    return Start(_now(), os.getloadavg()[0], _git("rev-parse", "HEAD"), _tree_clean())


def finish(start: Start, versions: Mapping[str, str]) -> Environment:
    """The environment of a part that began at ``start`` and ends now."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return Environment(
        started=start.moment,
        finished=_now(),
        commit=start.commit,
        tree_clean=start.tree_clean,
        processor=_processor(),
        cores=cores(),
        memory_bytes=pages * size,
        operating_system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        load_before=start.load,
        load_after=os.getloadavg()[0],
        versions=dict(sorted(versions.items())),
    )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _git(*arguments: str) -> str | None:
    try:
        finished = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return finished.stdout.strip()


def _tree_clean() -> bool | None:
    """Whether what is measured is what was committed; the results themselves do not count."""
    status = _git("status", "--porcelain", "--", ":!benchmarks/results.json", ":!benchmarks/*.md")
    return None if status is None else not status


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").split("\n") if info.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")
