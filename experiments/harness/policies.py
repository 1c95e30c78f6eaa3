"""Memory policies: settings of a new process that decide whether freed memory is kept.

By default glibc returns large blocks to the system as soon as they are freed, and the next call of
a network causes a page fault for each page again.  For a convolution on a processor, these faults
take two to three times as long as the call itself.  With ``retained`` glibc keeps freed memory;
``jemalloc`` is another allocator that keeps freed memory.  Page faults are recorded with every
time, and show whether the settings work.  glibc maps a block separately if it is larger than the
mapping threshold, and returns the free top of the heap if that is larger than the trimming
threshold.  ``mmap_threshold`` and ``trim_threshold`` raise one threshold, ``thresholds`` raises
both.  ``traced`` adds to the default a library (``policies.c``) that records blocks.
"""

import atexit
import ctypes
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from ctypes.util import find_library
from functools import cache
from pathlib import Path
from typing import Final

from experiments.harness.study import Device
from experiments.harness.timing import Workload
from report.core.records.record import Policy, SeriesByQuantity

#: Oldest version of glibc in which the tunables below are known to work.
TUNABLES_SINCE: Final = (2, 35)
#: Blocks up to 4 GiB come from the heap.
_MMAP_4_GIB: Final = "glibc.malloc.mmap_threshold=4294967296"
#: Up to 8 GiB of free memory stay at the top of the heap.
_TRIM_8_GIB: Final = "glibc.malloc.trim_threshold=8589934592"
#: Policy → value of GLIBC_TUNABLES; ``top_pad`` lets the heap grow in steps of 256 MiB.
_TUNABLES: Final[Mapping[str, str]] = {
    "retained": f"{_MMAP_4_GIB}:{_TRIM_8_GIB}:glibc.malloc.top_pad=268435456",
    "thresholds": f"{_MMAP_4_GIB}:{_TRIM_8_GIB}",
    "mmap_threshold": _MMAP_4_GIB,
    "trim_threshold": _TRIM_8_GIB,
}
#: Options with which jemalloc never returns free pages.
_JEMALLOC_OPTIONS: Final = "dirty_decay_ms:-1,muzzy_decay_ms:-1"

#: Number of warm-up calls; glibc raises its thresholds when the first calls free blocks.
_WARMUP_CALLS: Final = 5
_TRACED_CALLS: Final = 10
#: Largest number of recorded events per call.
_EVENT_LIMIT: Final = 256
#: Event of the library: size of a block (B; < 0 if freed), change of glibc's memory (B), time (ns).
_Event = ctypes.c_long * 3


def variables(policy: Policy) -> Mapping[str, str]:
    """Return the environment variables with which a process starts under ``policy``."""
    if policy == "jemalloc":
        return {"LD_PRELOAD": jemalloc() or "", "MALLOC_CONF": _JEMALLOC_OPTIONS}
    if policy == "traced":
        return {"LD_PRELOAD": tracing_library()}
    return {} if policy == "default" else {"GLIBC_TUNABLES": _TUNABLES[policy]}


def unavailable(policy: Policy, device: Device) -> str | None:
    """Explain why ``policy`` cannot be measured on this machine; None if it can be measured."""
    if policy == "default":
        return None
    if device == "cuda":
        return "PyTorch manages the memory of a GPU itself"
    if policy == "jemalloc":
        return None if jemalloc() else "jemalloc is not installed (Debian: libjemalloc2)"
    library, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    if library != "glibc" or numbers < TUNABLES_SINCE:
        name = f"{library or 'no glibc'} {version}".rstrip()
        return f"the C library ({name}) has no such settings; glibc 2.35 or newer has them"
    if policy == "traced" and not shutil.which("cc"):
        return "the tracing library needs a C compiler, but cc is not installed"
    return None


@cache
def jemalloc() -> str | None:
    """Return the name of jemalloc's library; None if it is not installed, or outside Linux."""
    return find_library("jemalloc") if platform.system() == "Linux" else None


@cache
def tracing_library() -> str:
    """Compile the tracing library and return its path; it is deleted when this process ends."""
    folder = tempfile.mkdtemp(prefix="ridgepoint-allocations-")
    atexit.register(shutil.rmtree, folder)
    path = f"{folder}/allocations.so"
    options = ("-O2", "-shared", "-fPIC", f"-DEVENTS={_EVENT_LIMIT}", "-o", path)
    subprocess.run(("cc", *options, Path(__file__).with_suffix(".c")), check=True)
    return path


def trace_blocks(workload: Workload) -> SeriesByQuantity:
    """Trace the blocks of warm calls, and the time of returning memory to the system.

    The process must have loaded the tracing library.  These series have a sample per event of the
    last call and of freeing its result: ``block_bytes`` (freed blocks < 0) and ``block_changes``
    (by how much the memory of glibc grows, B).  These have a sample per call: ``return_time``
    during the call and ``result_return_time`` while its result is freed (s).  ``mmap_threshold``
    (B) is glibc's mapping threshold at the end.
    """
    library = ctypes.CDLL(None)
    events = (_Event * _EVENT_LIMIT).in_dll(library, "trace_events")
    count = ctypes.c_int.in_dll(library, "trace_count")
    tracing = ctypes.c_int.in_dll(library, "trace_on")
    threshold = ctypes.c_long.in_dll(library, "trace_mmap_threshold")
    call_times, result_times = [], []
    for _ in range(_WARMUP_CALLS + _TRACED_CALLS):
        workload.reset()
        count.value, tracing.value = 0, 1
        result = workload.call()
        call_events = count.value
        del result
        tracing.value = 0
        call_times.append(_return_time(events[:call_events]))
        result_times.append(_return_time(events[call_events : count.value]))
    return {
        "block_bytes": tuple(size for size, _, _ in events[: count.value]),
        "block_changes": tuple(change for _, change, _ in events[: count.value]),
        "return_time": tuple(call_times[_WARMUP_CALLS:]),
        "result_return_time": tuple(result_times[_WARMUP_CALLS:]),
        "mmap_threshold": (threshold.value,),
    }


def _return_time(events: Iterable[ctypes.Array[ctypes.c_long]]) -> float:
    """Sum the time of the events that returned memory to the system (s)."""
    return sum(nanoseconds for _, change, nanoseconds in events if change < 0) / 1e9
