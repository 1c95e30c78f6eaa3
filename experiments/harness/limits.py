"""Memory that a case may take, so that running out of it is an outcome and not the end of the run.

Linux hands out more memory than there is, and ends a process that touches too much of it.  A limit
on the address space makes an allocation fail instead, which torch reports as an error.  A limit
below what the machine has shows what a smaller one could run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from experiments.harness import cgroups
from experiments.harness.outcomes import NotStartedError
from experiments.harness.summary import bytes_text

#: Left to the system and to what is no tensor (B).
RESERVE: Final = 2**29

_MEMORY: Final = Path("/proc/meminfo")
_PROCESS: Final = Path("/proc/self/status")


def available() -> int | None:
    """Bytes that can still be had without swapping, as the system estimates; None if untold.

    In a container no more than it may still use.
    """
    free, left = _field(_MEMORY, "MemAvailable"), cgroups.memory_left()
    return min(free, left) if free is not None and left is not None else free


def address_space() -> int | None:
    """Bytes of this process's address space; None where the system does not tell."""
    return _field(_PROCESS, "VmSize")


def _field(file: Path, name: str) -> int | None:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    found = (line.split() for line in lines if line.startswith(f"{name}:"))
    return next((int(words[1]) * 1024 for words in found), None)


@contextmanager
def limited(growth: int | None = None) -> Iterator[None]:
    """Let the address space grow by ``growth`` bytes at most, by default by what is available.

    Only on Linux; elsewhere there is no limit.  A limit that is there already is never raised.
    """
    if growth is None:
        free = available()
        growth = None if free is None else max(free - RESERVE, 0)
    size = address_space()
    if growth is None or size is None or not sys.platform.startswith("linux"):
        yield
        return
    with _soft_limit(size + growth):
        yield


@contextmanager
def _soft_limit(size: int) -> Iterator[None]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    lowest = min([size, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)])
    resource.setrlimit(resource.RLIMIT_AS, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def refuse_beyond(needed: int, free: int | None = None) -> None:
    """Raise ``NotStartedError`` if ``needed`` bytes are more than those that are available."""
    free = available() if free is None else free
    if free is not None and needed > free:
        raise NotStartedError(
            f"Not started: its tensors need at least {bytes_text(needed)} at once, and "
            f"{bytes_text(free)} are available."
        )
