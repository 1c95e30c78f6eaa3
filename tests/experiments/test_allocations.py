"""The library that notes blocks, on blocks whose fate follows from glibc's rules."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from experiments.harness import policies
from report.records.record import Series

MIB = 2**20
#: Takes blocks of 8 MiB together, and frees them; the result is the last.
_PROGRAM = """
import sys, msgspec, numpy
from experiments.harness import allocations
from experiments.harness.timing import Workload

def call():
    *blocks, last = [numpy.empty(8 * 2**20, dtype="uint8") for _ in range(int(sys.argv[1]))]
    return last

series = allocations.measure(Workload(call, reset=lambda: None))
sys.stdout.buffer.write(msgspec.json.encode(series))
"""


@pytest.mark.parametrize("blocks", [1, 3, 5])
def test_the_heap_is_returned_beyond_twice_the_largest_block(blocks: int) -> None:
    if reason := policies.unavailable("traced", "cpu"):
        pytest.skip(reason)
    done = subprocess.run(
        (sys.executable, "-c", _PROGRAM, str(blocks)),
        env={**os.environ, **policies.variables("traced")},
        capture_output=True,
        check=True,
    )
    found = {s.quantity: s.samples for s in msgspec.json.decode(done.stdout, type=list[Series])}
    assert [round(b / MIB) for b in found["block_bytes"]] == [8] * blocks + [-8] * blocks
    threshold = int(found["mmap_threshold"][0])
    assert 8 * MIB < threshold < 8.1 * MIB
    returned = blocks * 8 * MIB > 2 * threshold
    assert sum(change < 0 for change in found["block_changes"]) == returned
    assert sum(found["block_changes"]) == 0
    assert all((s > 0) == returned for s in found["result_return_time"])
    assert set(found["return_time"]) == {0}
