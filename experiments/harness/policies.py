"""What the C library does with freed memory: a factor of every time, set before a process starts.

By default glibc gives large blocks back to the system as soon as they are freed, and the next call
of a network faults them in again, page by page: two to three times the time of the call itself for
a convolution on a processor.  ``retained`` makes it keep what it has; ``jemalloc`` is another
allocator that keeps it.  Both are set by variables of the environment, which a process reads when
it starts; that they took effect is shown by the page faults that stand beside every time.
``mmap_threshold`` and ``trim_threshold`` raise one of glibc's two thresholds alone, ``thresholds``
both of them and nothing else, and ``traced`` is the default with the library of ``policies.c``,
which notes which blocks are taken and returned.
"""

from __future__ import annotations

import atexit
import ctypes
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from ctypes.util import find_library
from functools import cache
from pathlib import Path
from typing import Final

from experiments.harness.study import Device
from experiments.harness.timing import Workload
from report.records.record import Measured, Policy

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

#: Calls before the traced ones: the thresholds rise with what the first ones free.
_WARMUP: Final = 5
_CALLS: Final = 10
#: Events of one call that are noted.
_EVENTS: Final = 256
#: As the library keeps an event: bytes (of a freed block negative), change in bytes, ns.
_Event = ctypes.c_long * 3


def variables(policy: Policy) -> Mapping[str, str]:
    """What a process needs in its environment to start under ``policy``."""
    match policy:
        case "jemalloc":
            return {"LD_PRELOAD": jemalloc() or "", "MALLOC_CONF": _KEEPING}
        case "traced":
            return {"LD_PRELOAD": tracing_library()}
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
    if policy == "traced" and not shutil.which("cc"):
        return "there is no C compiler (cc) for the tracing library"
    return None


@cache
def jemalloc() -> str | None:
    """The library's name, by which the loader finds it; only looked for on Linux."""
    return find_library("jemalloc") if platform.system() == "Linux" else None


# ----------------------------------------------------------------------------------------- traced


@cache
def tracing_library() -> str:
    """The compiled library, which lies in a folder as long as this process runs."""
    folder = tempfile.mkdtemp(prefix="ridgepoint-allocations-")
    atexit.register(shutil.rmtree, folder)
    path, options = f"{folder}/allocations.so", ("-O2", "-shared", "-fPIC", f"-DEVENTS={_EVENTS}")
    subprocess.run(("cc", *options, "-o", path, Path(__file__).with_suffix(".c")), check=True)
    return path


def traced(workload: Workload) -> Measured:
    """The blocks of one warm call, and the time in which memory goes back to the system.

    Only in a process into which the library was loaded.

    ``block_bytes`` (those of freed blocks negative) and ``block_changes`` are of the last call and
    the freeing of its result, event by event; the times are a sample a call.
    """
    loaded = ctypes.CDLL(None)
    events = (_Event * _EVENTS).in_dll(loaded, "trace_events")
    count, on = (ctypes.c_int.in_dll(loaded, f"trace_{name}") for name in ("count", "on"))
    threshold = ctypes.c_long.in_dll(loaded, "trace_mmap_threshold")
    inside, after = [], []
    for _ in range(_WARMUP + _CALLS):
        workload.reset()
        count.value, on.value = 0, 1
        result = workload.call()
        during = count.value
        del result
        on.value = 0
        found = [tuple(event) for event in events[: count.value]]
        inside.append(_returning(found[:during]))
        after.append(_returning(found[during:]))
    return {
        "block_bytes": tuple(event[0] for event in found),
        "block_changes": tuple(event[1] for event in found),
        "return_time": tuple(inside[_WARMUP:]),
        "result_return_time": tuple(after[_WARMUP:]),
        "mmap_threshold": (threshold.value,),
    }


def _returning(events: list[tuple[int, ...]]) -> float:
    """Seconds in which blocks were freed whose memory went back to the system."""
    return sum(nanoseconds for _, change, nanoseconds in events if change < 0) / 1e9
