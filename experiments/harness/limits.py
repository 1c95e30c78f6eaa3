"""Memory and processors that a case may take, so that running out is an outcome and not the end.

Linux hands out more memory than there is, and ends a process that touches too much of it.  A limit
on the address space makes an allocation fail instead, which torch reports as an error.  A limit
below what the machine has shows what a smaller one could run.  A container shows the whole machine
to its programs and stops them at the limits of its control group, and of the groups above it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from experiments.harness.text import text_of

#: Left to the system and to what is no tensor (B).
RESERVE: Final = 2**29

_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def available() -> int | None:
    """Bytes that can still be had without swapping, as the system estimates; None if untold.

    In a container no more than it may still use, cached files not counted.
    """
    free = _field(Path("/proc/meminfo"), "MemAvailable")
    left = [limit - used for limit, used in _memories()]
    return free if free is None else max(0, min([free, *left]))


def processors() -> float | None:
    """How many processors a container may use at a time, as a mean; None without a limit."""
    texts = (text_of(folder / "cpu.max") for folder in _groups())
    quotas = [re.fullmatch(r"(\d+) (\d+)\s*", text) for text in texts]
    return min((int(quota[1]) / int(quota[2]) for quota in quotas if quota), default=None)


def memory() -> int | None:
    """Bytes that a container may use; None without a limit."""
    return min((limit for limit, _ in _memories()), default=None)


def told() -> dict[str, str]:
    """What a container may use, which changes times as variables do, and with them pooling."""
    quota, limit = processors(), memory()
    return {
        **({} if quota is None else {"cgroup.processors": f"{quota:g}"}),
        **({} if limit is None else {"cgroup.memory_bytes": str(limit)}),
    }


def _memories() -> Iterator[tuple[int, int]]:
    """Limit and use of each group that has a limit (B)."""
    for folder in _groups():
        limit, used = (text_of(folder / f"memory.{name}").strip() for name in ("max", "current"))
        if limit.isdecimal() and used.isdecimal():
            cached = re.search(r"^inactive_file (\d+)$", text_of(folder / "memory.stat"), re.M)
            yield int(limit), int(used) - int(cached[1] if cached else 0)


def _groups() -> Iterator[Path]:
    """The folders of this process's control group (version 2) and of those above it."""
    if own := re.search(r"^0::/(.*)$", text_of(_OWN), re.MULTILINE):
        inner = Path(own[1])
        yield from (_GROUPS / above for above in (inner, *inner.parents))


def _field(file: Path, name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB$", text_of(file), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


@contextmanager
def limited(growth: int | None = None) -> Iterator[None]:
    """Let the address space grow by ``growth`` bytes at most, by default by what is available.

    Only on Linux; elsewhere there is no limit.  A limit that is there already is never raised.
    """
    free, size = available(), _field(Path("/proc/self/status"), "VmSize")
    if not sys.platform.startswith("linux") or free is None or size is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    there = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    wanted = max(free - RESERVE, 0) if growth is None else growth
    resource.setrlimit(resource.RLIMIT_AS, (min([size + wanted, *there]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
