"""What the control groups of Linux, version 1 or 2, let this process use: processors and memory.

A container shows the whole machine to its programs and stops them at these limits.  Each group is
limited by those above it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from experiments.harness.text import text_of

_ROOT: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")
#: Version 1 writes so, less what does not fill a page, where there is no limit (B).
_NO_LIMIT: Final = 2**62


def processors() -> float | None:
    """How many processors may be used at a time, as a mean; None without a limit."""
    quotas = [_quota(text_of(folder / "cpu.max").split()) for folder in _groups("")]
    for folder in _groups("cpu"):
        files = (folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us")
        quotas.append(_quota([text_of(file).strip() for file in files]))
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota(words: list[str]) -> float | None:
    """Processors of a quota and its period in the same unit; ``max`` or -1 is none."""
    if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
        return int(words[0]) / int(words[1])
    return None


def memory() -> int | None:
    """Bytes that may be used; None without a limit."""
    return min((limit for limit, _ in _memories()), default=None)


def memory_left() -> int | None:
    """Bytes that may still be used, cached files not counted; None without a limit."""
    return min((max(limit - used, 0) for limit, used in _memories()), default=None)


def _memories() -> Iterator[tuple[int, int]]:
    """Limit and use of each group that has a limit (B)."""
    for controller, limit_file, used_file, kept in (
        ("", "memory.max", "memory.current", "inactive_file"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        for folder in _groups(controller):
            limit = text_of(folder / limit_file).strip()
            if limit.isdecimal() and int(limit) < _NO_LIMIT:
                used = text_of(folder / used_file).strip()
                stat = dict(line.split() for line in text_of(folder / "memory.stat").splitlines())
                given_back = int(stat.get(kept, 0))
                yield int(limit), int(used) - given_back if used.isdecimal() else 0


def _groups(controller: str) -> Iterator[Path]:
    """The folders of this process's group and of those above it; version 2 names no controller.

    A container may show its own group as the topmost one, and name it as the machine does.
    """
    for line in text_of(_OWN).splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            for name in dict.fromkeys((controller, controllers)):
                inner = Path(path.lstrip("/"))
                yield from (_ROOT / name / above for above in (inner, *inner.parents))
