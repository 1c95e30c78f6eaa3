"""Memory and processors that a case may take, so that running out is an outcome and not the end.

Linux hands out more memory than there is, and ends a process that touches too much of it.  A limit
on the address space makes an allocation fail instead, which torch reports as an error.  A limit
below what the machine has shows what a smaller one could run.  A container shows the whole machine
to its programs and stops them at the limits of its control group, and of the groups above it.
Version 1 of control groups has a tree for each resource, version 2 one for all.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Final

from experiments.machine.text import text_of

#: Left to the system and to what is no tensor (B).
RESERVE: Final = 2**29

_NO_MEMORY: Final = re.compile(
    r"can't allocate memory|not enough memory|cannot allocate memory|out of memory|"
    r"could not create a memory|bad_alloc|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)

_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")
#: A line there: the resources, none for version 2, and the group below the root.
_GROUP: Final = re.compile(r"^\d+:([^:\n]*):/(.*)$", re.MULTILINE)
#: Files of the limit and the use of memory by version 2 and 1, where a limit of 2⁶² B is none.
_MEMORY: Final = (("max", "current"), ("limit_in_bytes", "usage_in_bytes"))
_NO_LIMIT: Final = 2**62
_CACHED: Final = re.compile(r"^(?:total_)?inactive_file (\d+)$", re.MULTILINE)


def available() -> int:
    """Bytes that can still be had without swapping, as the system estimates.

    In a container no more than it may still use, cached files not counted.
    """
    import psutil  # type: ignore[import-untyped]

    left = [limit - used for limit, used in _memories()]
    return max(0, min([int(psutil.virtual_memory().available), *left]))


def processors() -> float | None:
    """Mean number of processors that a container may use at a time; None without a limit."""
    quotas: list[float] = []
    for folder in _groups():
        first = text_of(folder / "cpu.max").split()
        second = [text_of(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
        for quota, period in (parts for parts in (first, second) if len(parts) == 2):
            if quota.isdecimal() and period.isdecimal():  # and not «max» or -1
                quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory() -> int | None:
    """Bytes that a container may use; None without a limit."""
    return min((limit for limit, _ in _memories()), default=None)


def container_limits() -> dict[str, str]:
    """Limits of a container for the record: they change times, so that runs are not pooled."""
    quota, limit = processors(), memory()
    return {
        **({} if quota is None else {"cgroup.processors": f"{quota:g}"}),
        **({} if limit is None else {"cgroup.memory_bytes": str(limit)}),
    }


def _memories() -> Iterator[tuple[int, int]]:
    """Limit and use of each group that has a limit (B)."""
    for folder, names in product(_groups(), _MEMORY):
        limit, used = (text_of(folder / f"memory.{name}").strip() for name in names)
        if limit.isdecimal() and used.isdecimal() and int(limit) < _NO_LIMIT:
            # In version 1 the last number holds for the groups below, too, as does the use.
            cached = _CACHED.findall(text_of(folder / "memory.stat"))
            yield int(limit), int(used) - int(cached[-1] if cached else 0)


def _groups() -> Iterator[Path]:
    """The folders of this process's control groups and of the groups above them."""
    for resources, own in _GROUP.findall(text_of(_OWN)):
        for folder in {"", resources, *resources.split(",")}:
            yield from (_GROUPS / folder / above for above in (Path(own), *Path(own).parents))


@contextmanager
def limited(growth: int | None = None) -> Iterator[None]:
    """Let the address space grow by ``growth`` bytes at most, by default by what is available.

    Only on Linux; elsewhere there is no limit.  A limit that is there already is never raised.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    there = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    wanted = max(available() - RESERVE, 0) if growth is None else growth
    size = int(text_of(Path("/proc/self/statm")).split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (min([size + wanted, *there]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def is_out_of_memory(error: Exception) -> bool:
    """Whether ``error`` is Python's, CUDA's or the CPU allocator's way to say it.

    CUDA's class is told by its name, so that this module needs no torch; the CPU allocator raises a
    plain ``RuntimeError``, which only its text tells from others.
    """
    named = {kind.__name__ for kind in type(error).__mro__} & {"MemoryError", "OutOfMemoryError"}
    return bool(named) or (isinstance(error, RuntimeError) and bool(_NO_MEMORY.search(str(error))))
