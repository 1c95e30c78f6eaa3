"""Bytes of a call by CUDA's allocator and by glibc's, limits of memory, and ceilings.

Those by PyTorch's profiler are compared with theory in ``test_predicted_peaks``, and with a trace
in ``test_measuring``.
"""

from __future__ import annotations

import gc
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import count
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


#: Bytes of live tensors -> what the allocator says of them: blocks are multiples of 512 B.
SIZES: dict[str, Callable[[Iterable[int]], int]] = {
    "requested": sum,
    "allocated": lambda sizes: sum(-(-size // 512) * 512 for size in sizes),
    "reserved": lambda sizes: 2 * MIB if sizes else 0,
}


class Cuda:
    """Enough of ``torch.cuda`` to allocate, to keep statistics and to write a history."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self.levels: list[tuple[int, ...]] = []
        self.trace: list[dict[str, Any]] = []
        self.recording, self.backend = False, "native"

    def take(self, size: int) -> int:
        address = next(n for n in count(1) if n not in self.live)  # again as soon as it is free
        self.live[address] = size
        self.note("segment_alloc", 0, 2 * MIB)
        self.note("alloc", address, size)
        self.levels.append(tuple(self.live.values()))
        return address

    def free(self, address: int) -> None:
        self.note("free_requested", address, self.live[address])
        self.note("free_completed", address, self.live.pop(address))

    def note(self, action: str, address: int, size: int) -> None:
        if self.recording:
            self.trace.append({"action": action, "addr": address, "size": size})

    def statistics(self) -> dict[str, int]:
        now = tuple(self.live.values())
        return {
            f"{kind}_bytes.all.{moment}": max(map(size, levels))
            for kind, size in SIZES.items()
            for moment, levels in (("current", [now]), ("peak", [now, *self.levels]))
        }

    def record(self, enabled: str | None, context: str | None = "all") -> None:
        assert enabled is None or context is None, "stacks are of no use and cost time"
        self.recording = enabled == "all"

    def snapshot(self) -> dict[str, Any]:
        return {"device_traces": [[{"action": "alloc", "addr": 1, "size": 1}], list(self.trace)]}


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cuda]:
    made = Cuda()
    stand_in = SimpleNamespace(
        synchronize=lambda: None,
        empty_cache=lambda: None,
        reset_peak_memory_stats=made.levels.clear,
        memory_stats=made.statistics,
        current_device=lambda: 1,
        get_allocator_backend=lambda: made.backend,
        memory=SimpleNamespace(_record_memory_history=made.record, _snapshot=made.snapshot),
    )
    own = SimpleNamespace(_cuda_clearCublasWorkspaces=lambda: None)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=stand_in, _C=own))
    yield made
    gc.collect()  # tensors of one test must not be freed in the next


def test_statistics_of_three_calls_and_the_requests_that_led_there(cuda: Cuda) -> None:
    """A layer of 1000 B that takes a workspace of 700 B and leaves a result of 600 B."""

    class Tensor:
        def __init__(self, size: int) -> None:
            self.address = cuda.take(size)

        def __del__(self) -> None:
            cuda.free(self.address)

    def build() -> Workload:
        weights = Tensor(1000)

        def call() -> object:
            assert weights
            workspace = Tensor(700)
            result = Tensor(600)
            del workspace
            return result

        return Workload(call)

    requests = {
        "memory_events": (700, 600, -700),
        "memory_events_before": (1000, 700, 600, -700, -600),
        "memory_owners": (0, 1, 2, 1, 2, 3, 4, 3),
    }
    sizes = {"allocated": (1024, 2048, 3072), "requested": (1000, 1600, 2300)}
    statistics = {
        f"{kind}_{moment}": (size,) * 3
        for kind, each in {**sizes, "reserved": (2 * MIB,) * 3}.items()
        for moment, size in zip(("before", "after", "peak"), each, strict=True)
    }
    for _ in range(2):  # a second case begins with nothing again
        found = memory.measure_cuda(build)
        assert found == requests | statistics and not cuda.recording
        assert all(QUANTITIES[name].admits(samples) for name, samples in found.items())
    kept = cuda.take(10)  # so that the allocator cannot be emptied
    found = memory.measure_cuda(build)
    assert {n: s for n, s in found.items() if n in requests} == {"memory_events": (700, 600, -700)}
    cuda.free(kept)
    cuda.backend = "cudaMallocAsync"  # which keeps no history
    assert memory.measure_cuda(build) == statistics


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
