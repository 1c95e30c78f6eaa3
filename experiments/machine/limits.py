"""Find the limits of memory and processors for this process, and limit its memory.

Linux promises more memory than the machine has, and kills a process that touches too much memory.
If the address space is limited, an allocation fails instead, and torch reports an error.  Programs
in a container see the whole machine, but are stopped at the limits of the container's control group
and its parent groups.  Version 1 of control groups has a tree per resource; version 2 has one tree.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Final

from experiments.machine.text import read_text

#: Memory reserved for the system and for objects other than tensors (B).
RESERVED_BYTES: Final = 2**29

#: Part of the messages of errors that are raised when memory has run out.
_OUT_OF_MEMORY: Final = re.compile(
    r"can't allocate memory|not enough memory|cannot allocate memory|out of memory|"
    r"could not create a memory|bad_alloc|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)

#: Folder of the control groups.
_GROUPS_FOLDER: Final = Path("/sys/fs/cgroup")
#: File that lists this process's groups.
_OWN_GROUPS: Final = Path("/proc/self/cgroup")
#: Line of ``_OWN_GROUPS``: resources (empty in version 2), and path of the group in its tree.
_GROUP_LINE: Final = re.compile(r"^\d+:([^:\n]*):/(.*)$", re.MULTILINE)
#: Endings of the files ``memory.…`` with a group's limit and use, in version 2 and in version 1.
_MEMORY_FILES: Final = (("max", "current"), ("limit_in_bytes", "usage_in_bytes"))
#: From this number on (B), a limit of version 1 means that there is no limit.
_NO_LIMIT_BYTES: Final = 2**62
#: Files of version 1 with the processor time per period, and with the period.  Version 2 has both
#: numbers in one file.
_QUOTA_FILE, _PERIOD_FILE = "cpu.cfs_quota_us", "cpu.cfs_period_us"
#: Line of memory.stat with the bytes of cached files, which the system can free.
_CACHED_LINE: Final = re.compile(r"^(?:total_)?inactive_file (\d+)$", re.MULTILINE)


def available_memory() -> int:
    """Estimate the bytes that can be allocated without swapping, within the container's limits."""
    import psutil  # type: ignore[import-untyped]

    available = int(psutil.virtual_memory().available)
    for limit, used in _group_memory():
        available = min(available, limit - used)
    return max(0, available)


def processor_quota() -> float | None:
    """Return the mean number of processors that the container may use; None without a limit."""
    quotas: list[float] = []
    for folder in _groups():
        version_1 = f"{read_text(folder / _QUOTA_FILE)} {read_text(folder / _PERIOD_FILE)}"
        version_2 = read_text(folder / "cpu.max")
        for text in (version_1, version_2):
            numbers = text.split()
            # A missing limit is «max» or -1.
            if len(numbers) == 2 and all(map(str.isdecimal, numbers)):
                quotas.append(int(numbers[0]) / int(numbers[1]))
    return min(quotas, default=None)


def memory_limit() -> int | None:
    """Return the bytes that the container may use; None without a limit."""
    return min((limit for limit, _ in _group_memory()), default=None)


def container_limits() -> dict[str, str]:
    """Return the container's limits for the record; runs with different limits are not pooled."""
    quota, limit = processor_quota(), memory_limit()
    limits = {}
    if quota is not None:
        limits["cgroup.processors"] = f"{quota:g}"
    if limit is not None:
        limits["cgroup.memory_bytes"] = str(limit)
    return limits


def _group_memory() -> Iterator[tuple[int, int]]:
    """Yield limit and use (B) of each group with a limit; cached files do not count as used."""
    for folder, (limit_file, use_file) in product(_groups(), _MEMORY_FILES):
        limit = read_text(folder / f"memory.{limit_file}").strip()
        used = read_text(folder / f"memory.{use_file}").strip()
        if limit.isdecimal() and used.isdecimal() and int(limit) < _NO_LIMIT_BYTES:
            # Version 1 has two such lines; the last line includes child groups, as ``used`` does.
            cached = _CACHED_LINE.findall(read_text(folder / "memory.stat"))
            yield int(limit), int(used) - int(cached[-1] if cached else 0)


def _groups() -> Iterator[Path]:
    """Yield the folders of this process's control groups and of all parent groups."""
    for resources, own_group in _GROUP_LINE.findall(read_text(_OWN_GROUPS)):
        for tree in {"", resources, *resources.split(",")}:  # "": the only tree of version 2
            for group in (Path(own_group), *Path(own_group).parents):
                yield _GROUPS_FOLDER / tree / group


@contextmanager
def limit_memory(growth: int | None = None) -> Iterator[None]:
    """Let the address space grow by at most ``growth`` bytes; sets no limit outside Linux.

    The default is the available memory minus ``RESERVED_BYTES``.  An existing limit is not raised.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    existing = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    if growth is None:
        growth = max(available_memory() - RESERVED_BYTES, 0)
    size = int(read_text(Path("/proc/self/statm")).split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (min([size + growth, *existing]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def is_out_of_memory(error: Exception) -> bool:
    """Recognise the errors that Python, CUDA and the CPU allocator raise when memory runs out.

    CUDA's error class is compared by name, so that this module does not import torch.  The CPU
    allocator raises a plain ``RuntimeError``, which is recognised by its message.
    """
    if any(base.__name__ in ("MemoryError", "OutOfMemoryError") for base in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and bool(_OUT_OF_MEMORY.search(str(error)))
