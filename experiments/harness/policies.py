"""What the C library does with freed memory: a factor of every time, set before a process starts.

By default glibc gives large blocks back to the system as soon as they are freed, and the next call
of a network faults them in again, page by page: two to three times the time of the call itself for
a convolution on a processor.  ``retained`` makes it keep what it has; ``jemalloc`` is another
allocator that keeps it.  Both are set by variables of the environment, which a process reads when
it starts; that they took effect is shown by the page faults that stand beside every time.
``mmap_threshold`` and ``trim_threshold`` raise one of glibc's two thresholds alone, ``thresholds``
both of them and nothing else, and ``traced``
is the default with a library that notes which blocks are taken and returned.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from ctypes.util import find_library
from functools import cache
from pathlib import Path
from typing import Final

from experiments.harness import allocations
from experiments.harness.study import Device
from report.records.record import Policy

#: The first glibc that is taken to do what these variables ask for; that it did, the faults show.
TUNABLES_SINCE: Final = (2, 35)
#: Blocks up to 4 GiB come from the heap, 8 GiB free at its top stay there, and it grows by 256 MiB.
_MMAP: Final = "glibc.malloc.mmap_threshold=4294967296"
_TRIM: Final = "glibc.malloc.trim_threshold=8589934592"
_TUNABLES: Final[Mapping[str, str]] = {
    "retained": f"{_MMAP}:{_TRIM}:glibc.malloc.top_pad=268435456",
    "thresholds": f"{_MMAP}:{_TRIM}",
    "mmap_threshold": _MMAP,
    "trim_threshold": _TRIM,
}
#: jemalloc never gives back pages that are free.
_KEEPING: Final = "dirty_decay_ms:-1,muzzy_decay_ms:-1"


def variables(policy: Policy) -> Mapping[str, str]:
    """What a process needs in its environment to start under ``policy``."""
    match policy:
        case "jemalloc":
            return {"LD_PRELOAD": jemalloc(), "MALLOC_CONF": _KEEPING}
        case "traced":
            return {"LD_PRELOAD": allocations.library()}
        case "default":
            return {}
    return {"GLIBC_TUNABLES": _TUNABLES[policy]}


def unavailable(policy: Policy, device: Device) -> str | None:
    """Why no process can start under ``policy`` here, or None where it can."""
    if policy == "default":
        return None
    if device == "cuda":
        return "PyTorch manages the memory of a GPU itself"
    if policy == "jemalloc":
        return None if jemalloc() else "jemalloc is not installed (Debian: libjemalloc2)"
    library, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    if library != "glibc" or numbers < TUNABLES_SINCE:
        return f"the C library ({library or 'no glibc'} {version}".rstrip() + ") cannot be told so"
    return allocations.unavailable() if policy == "traced" else None


@cache
def jemalloc() -> str:
    """The library's file, or nothing where it is not installed; only looked for on Linux."""
    name = platform.system() == "Linux" and find_library("jemalloc")
    folders = (f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64", "/usr/lib")
    found = (Path(folder, name) for folder in folders) if name else ()
    return next((str(path) for path in found if path.exists()), "")


def as_recorded(policy: Policy) -> dict[str, str]:
    """The variables without the folders of this machine."""
    return {name: value.rpartition("/")[2] for name, value in variables(policy).items()}
