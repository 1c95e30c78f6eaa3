"""Which blocks a call takes from glibc's allocator, by the library of ``allocations.c``."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from experiments.harness.timing import Workload
from report.records.record import Measured

#: Calls before the traced ones: the thresholds rise with what the first ones free.
_WARMUP: Final = 5
CALLS: Final = 10
#: Events of one call that are noted.
_EVENTS: Final = 256
#: As the library keeps an event: bytes (of a freed block negative), change in bytes, ns.
_Event = ctypes.c_long * 3


def unavailable() -> str | None:
    """Why nothing can be traced here, or None where it can."""
    return None if shutil.which("cc") else "there is no C compiler (cc) for the tracing library"


@cache
def library() -> str:
    """The compiled library, which lies in a folder as long as this process runs."""
    path = Path(_folder().name) / "allocations.so"
    options = ("-O2", "-shared", "-fPIC", f"-DEVENTS={_EVENTS}")
    subprocess.run(("cc", *options, "-o", path, Path(__file__).with_suffix(".c")), check=True)
    return str(path)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="ridgepoint-allocations-")


def measure(workload: Workload) -> Measured:
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
    for _ in range(_WARMUP + CALLS):
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
