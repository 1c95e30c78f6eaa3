"""Time off the processor, told from processor times of which a single one is coarse.

Linux brings the time of a thread on another core up to date at its ticks only, when a process asks
for the time of all its threads (``thread_group_cputime`` since version 4.8, commit a1eb1411).  The
processor time of one call is therefore off by up to a tick (4 ms at 250 Hz) for each further
thread: too large in some calls, too small in others.  Where a call is no longer than that, neither
its share nor a median of such shares says anything, and many of them are below zero.  What one call
lacks is counted in the next one, so that sums over all samples are right to about a tick.
"""

from __future__ import annotations

from functools import partial
from math import fsum, sqrt
from typing import Final

from report.evidence.runs import described, remembered
from report.missing import Missing
from report.quantity.expression import Inferred, Quantity, absent
from report.quantity.intervals import inflation
from report.quantity.units import ONE
from report.records.record import Sample
from report.statistics.estimates import CONFIDENCE, Estimate
from report.statistics.paired_differences import mean_difference
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import Call

#: A share is told where the clock's step is at most this part of the threads' time in all samples.
COARSE: Final = 0.01
_TOO_SHORT: Final = (
    "the calls are too short for the clock of processor time, whose step is more than "
    f"{COARSE:.0%} of the threads' time in all samples".replace("%", " %")
)
_IMPOSSIBLE: Final = "more processor time was counted than the threads can have used"
_ONE_SAMPLE: Final = "one sample has no interval"


@remembered
def clock_step(run: Run) -> float:
    """The most by which the processor time of one call exceeds what its threads can use (s).

    Zero where the clock is exact.  It is found in the run itself, since the system's tick is not in
    the record.
    """
    timed = [_samples(run, call) for call in run.calls]
    excess = (
        busy - used
        for found in timed
        if not isinstance(found, Missing)
        for used, busy in zip(*found, strict=True)
    )
    return max(0.0, max(excess, default=0.0))


@remembered
def off_processor(run: Run, call: Call) -> Quantity:
    """The share of the threads' time in all samples in which they did not run.

    A quotient of sums, with the interval of a quotient of means.
    """
    found, name = _samples(run, call), described("off the processor", call.factors)
    if isinstance(found, Missing):
        return absent(name, "1", found.reason)
    threads_time, busy = found
    if len(busy) < 2:
        return absent(name, "1", _ONE_SAMPLE)
    if clock_step(run) > COARSE * fsum(threads_time):
        return absent(name, "1", _TOO_SHORT)
    if _unused(threads_time, busy, CONFIDENCE).high < 0:
        return absent(name, "1", _IMPOSSIBLE)
    device = run.stored.record.environment.device
    interval = partial(_unused, threads_time, busy)
    return Inferred(ONE, name, run.file, device, interval=interval)


def _samples(run: Run, call: Call) -> tuple[tuple[float, ...], tuple[Sample, ...]] | Missing:
    """Elapsed time of all threads and their processor time, sample by sample (s)."""
    time, busy = run.samples("time", call.factors), run.samples("cpu_time", call.factors)
    if isinstance(time, Missing):
        return time
    if isinstance(busy, Missing):
        return busy
    threads = run.stored.record.environment.threads
    return tuple(threads * seconds for seconds in time), busy


def _unused(available: tuple[float, ...], used: tuple[Sample, ...], confidence: float) -> Estimate:
    """One less the quotient of sums; its scatter is that of what it leaves of each sample.

    The calls of a process resemble each other, for which the interval is widened.
    """
    share = 1 - fsum(used) / fsum(available)
    mean = fsum(available) / len(available)
    left = [(a - u - share * a) / mean for a, u in zip(available, used, strict=True)]
    scatter = mean_difference(left, [0.0] * len(left), confidence)
    half = (scatter.high - scatter.low) / 2 * sqrt(inflation(left))
    return Estimate(share, share - half, share + half, scatter.n, confidence)
