"""The machine's ceilings: arithmetic, bandwidth and the mapping of pages, in a fresh process.

A process that has measured a series gives lower ceilings than a new one (its allocator and thread
pools are used), hence the process of their own.  It has the environment variables of the memory
policy under which the series is measured: a convolution allocates its result, so that its rate too
depends on where that memory comes from.

What is measured, and why by several instruments, is told in ``peak_arithmetic``,
``peak_bandwidth`` and ``page_mapping``.  A large plan takes about 20 s, a small one 4 s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from experiments.harness import (
    isolated,
    page_mapping,
    peak_arithmetic,
    peak_bandwidth,
    runtime,
    timing,
)
from experiments.harness.instruments import Instrument, sampled
from experiments.harness.outcomes import OutcomeError
from experiments.harness.study import SEED, CeilingSize, Device
from report.errors import MeasurementError
from report.records.record import Ceiling, Moment

_LIMIT_S: Final = 300
#: Samples of each ceiling, whose best is what papers call the ceiling.
RUNS: Final[dict[CeilingSize, int]] = {"large": 12, "small": 8}


class Found(NamedTuple):
    """Measured ceilings, and why some are not among them; ``reason`` is null if all are."""

    ceilings: tuple[Ceiling, ...]
    reason: str | None


def measure_isolated(
    device: Device,
    threads: int,
    size: CeilingSize,
    moment: Moment,
    variables: Mapping[str, str] | None = None,
) -> Found:
    """All ceilings, measured by a new process with the same number of threads.

    ``variables`` are added to its environment, such as those of a memory policy.  Raises
    ``MeasurementError`` with what went wrong in that process.
    """
    if size == "none":
        return Found((), "the study asks for no ceilings")
    call = partial(measure, device, threads, size, moment)
    try:
        return isolated.run(call, variables, limit_s=_LIMIT_S)
    except OutcomeError as error:
        raise MeasurementError(f"The ceilings could not be measured: {error.reason}") from error


def measure(device: Device, threads: int, size: CeilingSize, moment: Moment) -> Found:
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
        return Found(there, None)
    try:
        return Found((*there, page_mapping.measured(moment)), None)
    except OutcomeError as error:
        return Found(there, error.reason)


def _instruments(
    torch: Any, device: Device, threads: int, size: CeilingSize
) -> Iterator[Instrument]:
    yield from peak_arithmetic.instruments(torch, device, size)
    yield from peak_bandwidth.instruments(torch, device, threads, size)
