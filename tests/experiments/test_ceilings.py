"""Over what the machine's ceilings are measured; ``test_measuring`` measures them."""

from __future__ import annotations

import pytest

from experiments.harness import ceilings
from experiments.harness.ceilings import working_sets
from report.errors import MeasurementError
from report.records.record import Cache

CACHES = (
    Cache(level=1, kind="data", size_bytes=32 * 2**10, cores=1),
    Cache(level=1, kind="instruction", size_bytes=32 * 2**10, cores=1),
    Cache(level=2, kind="unified", size_bytes=2**20, cores=1),
    Cache(level=3, kind="unified", size_bytes=32 * 2**20, cores=8),
)


def test_the_working_sets_show_every_cache_and_memory() -> None:
    assert working_sets(CACHES, 2, 8, 2**40) == (32 * 2**10, 2**20, 16 * 2**20, 128 * 2**20)
    assert working_sets((), 2, 8, 2**20) == (2**20,)


def test_pages_that_did_not_fault_are_no_measurement() -> None:
    ceilings.check_faults(100, [100, 101, 102])
    for faults in ([3, 3, 3], [200, 200]):
        with pytest.raises(MeasurementError, match=r"page mapping: .*page"):
            ceilings.check_faults(100, faults)
