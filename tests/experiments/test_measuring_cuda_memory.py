"""Bytes of a call on a GPU, from a stand-in of CUDA's allocator that keeps statistics and history.

The stand-in hands out addresses, again as soon as they are free, as the real one does.  Its blocks
are multiples of 512 B; it holds one segment of 2 MiB while anything lives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.harness import memory
from experiments.harness.timing import Workload
from report.records.quantities import QUANTITIES
from report.records.record import Series

SEGMENT = 2 * 2**20


class Allocator:
    """Enough of ``torch.cuda`` to measure memory with."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self.peak: dict[str, int] = {}
        self.trace: list[dict[str, Any]] = []
        self.recording = False
        self.reserved = 0
        self.calls: list[str] = []

    def take(self, size: int) -> int:
        if not self.reserved:
            self._note("segment_alloc", 1, SEGMENT)
            self.reserved = SEGMENT
        address = next(n for n in range(1, 100) if n not in self.live)
        self.live[address] = size
        self._note("alloc", address, size)
        self._raise_peaks()
        return address

    def free(self, address: int) -> None:
        size = self.live.pop(address)
        self._note("free_requested", address, size)
        self._note("free_completed", address, size)

    def _note(self, action: str, address: int, size: int) -> None:
        if self.recording:
            self.trace.append({"action": action, "addr": address, "size": size, "stream": 0})

    def _now(self) -> dict[str, int]:
        return {
            "requested_bytes.all": sum(self.live.values()),
            "allocated_bytes.all": sum(-(-size // 512) * 512 for size in self.live.values()),
            "reserved_bytes.all": self.reserved,
        }

    def _raise_peaks(self) -> None:
        self.peak = {name: max(self.peak.get(name, 0), now) for name, now in self._now().items()}

    def reset_peak(self) -> None:
        self.peak = self._now()

    def statistics(self) -> dict[str, int]:
        now = self._now()
        return {
            **{f"{name}.current": size for name, size in now.items()},
            **{f"{name}.peak": self.peak.get(name, size) for name, size in now.items()},
        }

    def empty_cache(self) -> None:
        self.calls.append("empty_cache")
        if not self.live:
            self.reserved = 0

    def record(self, enabled: str | None, context: str | None = "all") -> None:
        assert enabled in ("all", None)
        if enabled == "all":
            assert context is None, "stacks are of no use and cost time"
        self.recording = enabled == "all"

    def snapshot(self) -> dict[str, Any]:
        found = [[{"action": "alloc", "addr": 1, "size": 1}], list(self.trace)]
        self._note("snapshot", 0, 0)
        return {"segments": [], "device_traces": found}


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    made = Allocator()
    cuda = SimpleNamespace(
        synchronize=lambda: None,
        empty_cache=made.empty_cache,
        reset_peak_memory_stats=made.reset_peak,
        memory_stats=made.statistics,
        current_device=lambda: 1,
        get_allocator_backend=lambda: "native",
        memory=SimpleNamespace(_record_memory_history=made.record, _snapshot=made.snapshot),
    )
    workspaces = SimpleNamespace(
        _cuda_clearCublasWorkspaces=lambda: made.calls.append("workspaces")
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, _C=workspaces))
    return made


@pytest.fixture
def build(allocator: Allocator) -> Callable[[], Workload]:
    """A layer of 1000 B that takes a workspace of 700 B and leaves a result of 600 B."""

    class Tensor:
        def __init__(self, size: int) -> None:
            self.address = allocator.take(size)

        def __del__(self) -> None:
            allocator.free(self.address)

    def made() -> Workload:
        weights = Tensor(1000)

        def call() -> object:
            assert weights
            workspace = Tensor(700)
            result = Tensor(600)
            del workspace
            return result

        return Workload(call, reset=lambda: None)

    return made


def samples(found: tuple[Series, ...]) -> dict[str, tuple[float, ...]]:
    return {series.quantity: series.samples for series in found}


def test_statistics_of_three_calls_and_the_requests_that_led_there(
    build: Callable[[], Workload], allocator: Allocator
) -> None:
    series = memory.measure_cuda(build)
    assert all(QUANTITIES[s.quantity].unit == s.unit for s in series)
    assert all(QUANTITIES[s.quantity].admits(s.samples) for s in series)
    assert samples(series) == {
        "memory_events": (700, 600, -700),
        "memory_events_before": (1000, 700, 600, -700, -600),
        "memory_owners": (0, 1, 2, 1, 2, 3, 4, 3),
        "allocated_before": (1024,) * 3,
        "allocated_after": (2048,) * 3,
        "allocated_peak": (3072,) * 3,
        "requested_before": (1000,) * 3,
        "requested_after": (1600,) * 3,
        "requested_peak": (2300,) * 3,
        "reserved_before": (SEGMENT,) * 3,
        "reserved_after": (SEGMENT,) * 3,
        "reserved_peak": (SEGMENT,) * 3,
    }
    assert not allocator.recording
    assert allocator.calls == ["workspaces", "empty_cache"]
    assert memory.measure_cuda(build) == series, "a second case begins with nothing again"


def test_an_allocator_that_cannot_be_emptied_tells_only_of_the_call(
    build: Callable[[], Workload], allocator: Allocator
) -> None:
    kept = allocator.take(10)
    found = samples(memory.measure_cuda(build))
    assert found["memory_events"] == (700, 600, -700)
    assert {"memory_events_before", "memory_owners"}.isdisjoint(found)
    allocator.free(kept)


def test_without_a_history_the_statistics_remain(
    build: Callable[[], Workload], monkeypatch: pytest.MonkeyPatch, allocator: Allocator
) -> None:
    cuda = sys.modules["torch"].cuda
    monkeypatch.setattr(cuda, "get_allocator_backend", lambda: "cudaMallocAsync")
    found = samples(memory.measure_cuda(build))
    assert found.keys().isdisjoint({"memory_events", "memory_events_before", "memory_owners"})
    assert found["requested_peak"] == (2300,) * 3
    assert allocator.trace == []


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Tensors of one test must not be freed in the next."""
    import gc

    yield
    gc.collect()
