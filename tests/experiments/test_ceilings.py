"""The machine's ceilings come from a process of their own."""

from __future__ import annotations

import mmap

import pytest

from experiments.harness import ceilings
from experiments.harness.ceilings import Instrument, working_sets
from experiments.harness.journal import Ceilings
from experiments.harness.processes import working
from experiments.harness.study import QUICK, Session
from experiments.harness.timing import Duration, Workload
from experiments.harness.worker import Task
from report.errors import MeasurementError
from report.records.record import Cache, Ceiling

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


def test_the_small_plan_shows_every_cache_and_memory() -> None:
    found = working_sets(CACHES, 2, 8, 2**40, "small")
    assert found == (32 * 2**10, 2**20, 16 * 2**20, 128 * 2**20)


class Clock:
    """Counts what is called instead of timing it: each unit lasts ``one`` s."""

    def __init__(self, one: float) -> None:
        self.one = one
        self.units = 0.0

    def __call__(self, workload: Workload) -> Duration:
        before = self.units
        workload.call()
        return Duration((self.units - before) * self.one)

    def call(self, units: float) -> None:
        self.units += units


def made(clock: Clock, cost: float) -> Ceiling | None:
    """A ceiling of a call of one unit, of which calling is a share ``cost``."""
    instrument = Instrument(
        "copy",
        "a copy",
        "float32",
        "1 element",
        8,
        "B",
        lambda: clock.call(1.0),
        8,
        empty=lambda: clock.call(cost),
    )
    return ceilings.sampled(instrument, 6, "after", clock)


def test_a_short_call_is_repeated_within_a_sample_and_all_its_work_counts() -> None:
    found = made(Clock(1e-5), cost=0.01)
    assert found is not None
    calls = found.work // 8
    assert calls == 100
    assert found.samples == pytest.approx([calls * 1e-5] * 6)
    assert (found.instrument, found.working_set, found.moment) == ("a copy", 8, "after")


def test_a_call_that_is_mostly_the_cost_of_calling_shows_no_ceiling() -> None:
    assert made(Clock(1e-6), cost=0.06) is None
    assert made(Clock(1e-6), cost=0.04) is not None


def test_pages_that_did_not_fault_are_no_measurement() -> None:
    ceilings.check_faults(100, [100, 101, 102])
    for faults in ([], [3, 3, 3], [200, 200]):
        with pytest.raises(MeasurementError, match=r"page mapping: .*page"):
            ceilings.check_faults(100, faults)
