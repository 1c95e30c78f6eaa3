"""The machine's ceilings come from a process of their own."""

from __future__ import annotations

import mmap

import pytest

from experiments.harness import ceilings
from experiments.harness.ceilings import working_sets
from experiments.harness.journal import Ceilings
from experiments.harness.processes import working
from experiments.harness.study import QUICK, Session
from experiments.harness.worker import Task
from report.errors import MeasurementError
from report.records.record import Cache

CACHES = (
    Cache(level=1, kind="data", size_bytes=32 * 2**10, cores=1),
    Cache(level=1, kind="instruction", size_bytes=32 * 2**10, cores=1),
    Cache(level=2, kind="unified", size_bytes=2**20, cores=1),
    Cache(level=3, kind="unified", size_bytes=32 * 2**20, cores=8),
)


# ----------------------------------------------------------------------------- the real machine


@pytest.fixture(scope="module")
def small() -> Ceilings:
    pytest.importorskip("torch")
    session = Session("cpu", QUICK.protocol)
    with working(Task(role="ceilings", session=session, ceilings=("small", "before"))) as running:
        (found,) = (each for each in running.messages() if isinstance(each, Ceilings))
    return found


def test_the_work_of_arithmetic_is_that_of_its_shapes(small: Ceilings) -> None:
    (side,) = ceilings.SIDES["cpu", "small"]
    found = {(c.operation, c.instrument): c for c in small.ceilings if c.work_unit == "FLOP"}
    assert found["matrix_product", "torch.mm"].work == 2 * side**3
    # 8 images of 28 by 28 pixels give 26 by 26 outputs, each of 256 channels by 9 taps of 256.
    assert found["convolution", "torch.nn.Conv2d"].work == 2 * 8 * 26 * 26 * 256 * 9 * 256


def test_pages_are_counted_or_their_absence_is_told(small: Ceilings) -> None:
    found = [ceiling for ceiling in small.ceilings if ceiling.operation == "page_mapping"]
    assert [c.work for c in found] == ([] if small.reason else [64 * 2**20 // mmap.PAGESIZE])
    assert all(len(ceiling.samples) >= 20 for ceiling in found)


# --------------------------------------------------------------------------------- pure parts


def test_the_working_sets_show_every_cache_and_memory() -> None:
    assert working_sets(CACHES, 2, 8, 2**40) == (32 * 2**10, 2**20, 16 * 2**20, 128 * 2**20)
    assert working_sets((), 2, 8, 2**20) == (2**20,)


def test_pages_that_did_not_fault_are_no_measurement() -> None:
    ceilings.check_faults(100, [100, 101, 102])
    for faults in ([], [3, 3, 3], [200, 200]):
        with pytest.raises(MeasurementError, match=r"page mapping: .*page"):
            ceilings.check_faults(100, faults)
