"""Bytes of a call by CUDA's allocator and by glibc's, limits of memory, and ceilings.

Those by PyTorch's profiler are compared with theory in ``test_predicted_peaks``, and with a trace
in ``test_measuring``.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from experiments.harness import limits, memory, policies
from experiments.harness.ceilings import page_problem, working_sets
from experiments.harness.timing import Workload
from report.records.quantities import QUANTITIES
from report.records.record import Cache

MIB = 2**20

# ---------------------------------------------------------------------------------- on a GPU

#: A layer of 1000 B takes a workspace of 700 B, leaves a result of 600 B, and is called again; an
#: address serves again as soon as it is free.
HISTORY = (
    ("alloc", 1, 1000), ("segment_alloc", 9, 2 * MIB),
    ("alloc", 2, 700), ("alloc", 3, 600), ("free_requested", 2, 700), ("free_completed", 2, 700),
    ("free_completed", 3, 600),
    ("alloc", 2, 700), ("alloc", 3, 600), ("free_completed", 2, 700),
)  # fmt: skip
ENTRIES = [{"action": action, "addr": place, "size": size} for action, place, size in HISTORY]
CALL = {"memory_events": (700, 600, -700)}
REQUESTS = CALL | {
    "memory_events_before": (1000, 700, 600, -700, -600),
    "memory_owners": (0, 1, 2, 1, 2, 3, 4, 3),
}


@pytest.mark.parametrize(
    ("missed", "emptied", "told"),
    [(0, True, REQUESTS), (0, False, CALL), (3, True, CALL), (10, True, {})],
)
def test_what_led_to_a_call_is_told_where_all_of_it_is_known(
    missed: int, emptied: bool, told: dict[str, Any]
) -> None:
    assert memory.requests_of(ENTRIES[missed:], 7 - missed, emptied) == told


def test_statistics_stand_around_each_call_whose_result_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order, trace = list[str](), [{"action": "alloc", "addr": 1, "size": 1}]
    empty = {"reserved_bytes.all.current": 0}
    before = {"allocated_bytes.all.current": 1024, "requested_bytes.all.current": 1000}
    after = {name: 2 * size for name, size in before.items()}
    peaks = {"allocated_bytes.all.peak": 3072, "requested_bytes.all.peak": 2300}
    levels = iter([empty, *[before, after | peaks] * 3])

    class Result:
        def __del__(self) -> None:
            order.append("freed")

    def call() -> Result:
        trace.extend(ENTRIES[7:] if "call" in order else ENTRIES[:7])
        order.append("call")
        return Result()

    def record(enabled: str | None, context: str | None = "all") -> None:
        assert enabled is None or context is None, "stacks are of no use and cost time"

    nothing, clear = (lambda: None), (lambda: order.append("clear"))
    history = SimpleNamespace(
        _record_memory_history=record, _snapshot=lambda: {"device_traces": [[], trace]}
    )
    cuda = SimpleNamespace(
        synchronize=nothing, empty_cache=nothing, reset_peak_memory_stats=clear, memory=history,
        memory_stats=lambda: order.append("read") or next(levels),
        current_device=lambda: 1, get_allocator_backend=lambda: "native",
    )  # fmt: skip
    own = SimpleNamespace(_cuda_clearCublasWorkspaces=nothing)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, _C=own))
    found = memory.measure_cuda(lambda: Workload(call))
    assert order[3:] == ["clear", "read", "call", "read", "freed"] * 3
    assert found == REQUESTS | {
        "allocated_before": (1024,) * 3, "allocated_after": (2048,) * 3,
        "allocated_peak": (3072,) * 3, "requested_before": (1000,) * 3,
        "requested_after": (2000,) * 3, "requested_peak": (2300,) * 3,
    }  # fmt: skip
    assert all(QUANTITIES[name].admits(samples) for name, samples in found.items())


# ------------------------------------------------------------------------------- in the system


#: Takes 1 block of 8 MiB, then 3 together, and frees them; the result is the last.
_PROGRAM = """
import sys, msgspec, numpy
from experiments.harness import policies
from experiments.harness.timing import Workload

def call(count):
    *blocks, last = [numpy.empty(8 * 2**20, dtype="uint8") for _ in range(count)]
    return last

found = [policies.traced(Workload(lambda: call(count))) for count in (1, 3)]
sys.stdout.buffer.write(msgspec.json.encode(found))
"""


def test_the_heap_is_returned_beyond_twice_the_largest_block() -> None:
    if reason := policies.unavailable("traced", "cpu"):
        pytest.skip(reason)
    environment = {**os.environ, **policies.variables("traced")}
    printed = subprocess.check_output((sys.executable, "-c", _PROGRAM), env=environment)
    for blocks, found in zip((1, 3), msgspec.json.decode(printed), strict=True):
        assert [round(b / MIB) for b in found["block_bytes"]] == [8] * blocks + [-8] * blocks
        threshold = int(found["mmap_threshold"][0])
        assert 8 * MIB < threshold < 8.1 * MIB
        returned = blocks * 8 * MIB > 2 * threshold
        assert sum(change < 0 for change in found["block_changes"]) == returned
        assert sum(found["block_changes"]) == 0
        assert all((s > 0) == returned for s in found["result_return_time"])
        assert set(found["return_time"]) == {0}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits need Linux")
def test_what_goes_beyond_the_limit_fails_and_the_limit_goes_away() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError), limits.limited(64 * MIB):
        bytearray(1024 * MIB)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    with limits.limited(64 * MIB):
        assert len(bytearray(MIB)) == MIB
    with pytest.raises(MemoryError), limits.limited():
        bytearray(4 * limits.available())


# ------------------------------------------------------------------------------------- ceilings

CACHES = (
    Cache(level=1, kind="data", size_bytes=32 * 2**10, cores=1),
    Cache(level=1, kind="instruction", size_bytes=32 * 2**10, cores=1),
    Cache(level=2, kind="unified", size_bytes=MIB, cores=1),
    Cache(level=3, kind="unified", size_bytes=32 * MIB, cores=8),
)


def test_the_working_sets_show_every_cache_and_memory() -> None:
    assert working_sets(CACHES, 2, 8, 2**40) == (32 * 2**10, MIB, 16 * MIB, 128 * MIB)
    assert working_sets((), 2, 8, MIB) == (MIB,)


def test_pages_that_did_not_fault_are_no_measurement() -> None:
    pages = 64 * MIB // mmap.PAGESIZE
    assert page_problem([pages, pages + 1, pages + 2]) is None
    for faults in ([3, 3, 3], [2 * pages] * 2):
        assert str(page_problem(faults)).startswith(f"page mapping: {pages} pages were touched")
