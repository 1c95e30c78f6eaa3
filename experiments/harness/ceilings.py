"""The machine's ceilings: arithmetic, bandwidth and the mapping of pages, in a fresh process.

A process that has measured a series gives lower ceilings than a new one (its allocator and thread
pools are used), hence the process of their own.  It has the environment variables of the memory
policy under which the series is measured: a convolution allocates its result, so that its rate too
depends on where that memory comes from.

What is measured, and why by several instruments, is told in ``peak_arithmetic``,
``peak_bandwidth`` and ``page_mapping``.  A large plan takes about 20 s, a small one 4 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from experiments.harness import (
    page_mapping,
    peak_arithmetic,
    peak_bandwidth,
    runtime,
    timing,
)
from experiments.harness.instruments import Instrument, sampled
from experiments.harness.journal import Ceilings
from experiments.harness.outcomes import OutcomeError
from experiments.harness.study import SEED, CeilingSize, Device
from report.records.record import Moment

#: Samples of each ceiling, whose best is what papers call the ceiling.
RUNS: Final[dict[CeilingSize, int]] = {"large": 12, "small": 8}


def measure(device: Device, threads: int, size: CeilingSize, moment: Moment) -> Ceilings:
    """All ceilings, in this process; raises what torch raises.

    The price of a page is that of the host, which a run on a GPU does not ask for.
    """
    torch = runtime.start_torch(device, threads)
    torch.manual_seed(SEED)
    clock = timing.cpu_clock if device == "cpu" else timing.cuda_clock
    with torch.device(device), torch.no_grad(), timing.collector_off():
        found = [
            sampled(instrument, RUNS[size], moment, clock)
            for instrument in _instruments(torch, device, threads, size)
        ]
    there = tuple(ceiling for ceiling in found if ceiling is not None)
    if device == "cuda":
        return Ceilings(ceilings=there)
    try:
        return Ceilings(ceilings=(*there, page_mapping.measured(moment)))
    except OutcomeError as error:
        return Ceilings(ceilings=there, reason=error.reason)


def _instruments(
    torch: Any, device: Device, threads: int, size: CeilingSize
) -> Iterator[Instrument]:
    yield from peak_arithmetic.instruments(torch, device, size)
    yield from peak_bandwidth.instruments(torch, device, threads, size)
