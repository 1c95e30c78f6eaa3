"""Which blocks a call takes from glibc's allocator, and what the system maps for it.

A library that is loaded before glibc stands between a program and ``posix_memalign``, ``malloc``
and ``free``.  Of blocks of 64 KiB and more it notes the size, the time inside glibc, and how much
more memory glibc holds of the system afterwards, in its heap and in blocks mapped by themselves.
It follows glibc's own rule for returning memory (mallopt(3)) from the start of the process: the
threshold for mapping a block by itself rises to the largest such block that was freed, up to
32 MiB, and the free top of the heap is returned where it exceeds twice that.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from experiments.harness.timing import Workload
from report.records.record import Series

#: Calls before the traced ones: the thresholds rise with what the first ones free.
_WARMUP: Final = 5
CALLS: Final = 10
#: Events of one call that are noted.
_EVENTS: Final = 256

_SOURCE: Final = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 65536, LARGEST_THRESHOLD = 32 << 20 };
struct event { long bytes, change, nanoseconds; };
struct event trace_events[EVENTS];
int trace_count, trace_on;
long trace_mmap_threshold = 128 << 10;

void *__libc_malloc(size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static long held(void) { return (long)sbrk(0) + (long)mallinfo2().hblkhd; }

#define TRACED(size, action) do { \
    if (!trace_on || (size) < LARGE || trace_count == EVENTS) { action; break; } \
    long before = held(), start = now(); \
    action; \
    long end = now(); \
    trace_events[trace_count++] = (struct event){bytes, held() - before, end - start}; \
} while (0)

void *malloc(size_t size) {
    long bytes = size;
    void *block;
    TRACED(size, block = __libc_malloc(size));
    return block;
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    long bytes = size;
    TRACED(size, *block = __libc_memalign(alignment, size));
    return *block ? 0 : ENOMEM;
}

void free(void *block) {
    if (!block) return;
    size_t header = ((size_t *)block)[-1], size = malloc_usable_size(block);
    long bytes = -(long)size, mapped = header & ~7UL;
    if (header & 2 && mapped > trace_mmap_threshold && mapped <= LARGEST_THRESHOLD)
        trace_mmap_threshold = mapped;
    TRACED(size, __libc_free(block));
}
"""


#: As the library keeps an event: bytes (of a freed block negative), change in bytes, ns.
_Event = ctypes.c_long * 3


def unavailable() -> str | None:
    """Why nothing can be traced here, or None where it can."""
    return None if shutil.which("cc") else "there is no C compiler (cc) for the tracing library"


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where the library lies as long as this process runs."""
    return tempfile.TemporaryDirectory(prefix="ridgepoint-allocations-")


@cache
def library() -> Path:
    """The compiled library."""
    source, path = (Path(_folder().name) / name for name in ("allocations.c", "allocations.so"))
    source.write_text(_SOURCE)
    options = ("-O2", "-shared", "-fPIC", f"-DEVENTS={_EVENTS}")
    subprocess.run(("cc", *options, "-o", path, source), check=True)
    return path


def measure(workload: Workload) -> tuple[Series, ...]:
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
    return (
        Series(quantity="block_bytes", unit="B", samples=tuple(e[0] for e in found)),
        Series(quantity="block_changes", unit="B", samples=tuple(e[1] for e in found)),
        Series(quantity="return_time", unit="s", samples=tuple(inside[_WARMUP:])),
        Series(quantity="result_return_time", unit="s", samples=tuple(after[_WARMUP:])),
        Series(quantity="mmap_threshold", unit="B", samples=(threshold.value,)),
    )


def _returning(events: list[tuple[int, ...]]) -> float:
    """Seconds in which blocks were freed whose memory went back to the system."""
    return sum(nanoseconds for _, change, nanoseconds in events if change < 0) / 1e9
