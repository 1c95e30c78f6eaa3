"""What measures a ceiling: a call of known work, and how it is sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from experiments.harness import timing
from experiments.harness.workload import Workload
from report.records.record import Ceiling, Moment, Peak, WorkUnit

_WARMUP: Final = 2
#: The share of a call's time that the cost of calling may have, else the call shows no ceiling.
OVERHEAD: Final = 0.05
#: A sample lasts at least about so long (s), so that the clock (0.5 µs) is far below 1 % of it.
SHORTEST_S: Final = 1e-3
#: Calls from which their number in a sample is found.
_TRIALS: Final = 5


@dataclass(frozen=True)
class Instrument:
    """A program that does ``work`` in ``unit`` by one ``call``, which can be made again and again.

    ``working_set`` is all that a call touches (B), over all threads.  ``empty`` is the same call
    with next to no work: its time is the cost of calling.  Where it is given, a sample is many
    calls.
    """

    operation: Peak
    name: str
    dtype: str
    size: str
    work: int
    unit: WorkUnit
    call: Callable[[], object]
    working_set: int | None = None
    empty: Callable[[], object] | None = None


def sampled(
    instrument: Instrument, runs: int, moment: Moment, clock: timing.Clock
) -> Ceiling | None:
    """``runs`` samples, or None where the cost of calling would be too large a share of them."""
    calls = 1
    if instrument.empty is not None:
        one = _fastest(instrument.call, clock)
        if _fastest(instrument.empty, clock) > OVERHEAD * one:
            return None
        calls = passes(one)
    durations = _durations(_repeated(instrument.call, calls), runs, clock)
    return Ceiling(
        operation=instrument.operation,
        moment=moment,
        dtype=instrument.dtype,
        size=instrument.size,
        work=calls * instrument.work,
        work_unit=instrument.unit,
        samples=durations,
        instrument=instrument.name,
        working_set=instrument.working_set,
    )


def passes(duration: float) -> int:
    """How many calls of ``duration`` (s) make a sample."""
    # A quotient that only rounding put above a whole number takes no further call.
    return max(1, math.ceil(SHORTEST_S / duration * (1 - 1e-12)))


def _fastest(call: Callable[[], object], clock: timing.Clock) -> float:
    """The shortest of a few durations of a call (s): its own, whatever else the machine does.

    A call that lasts long needs no more than one, a short one is timed as many in a row.
    """
    (first,) = _durations(call, 1, clock)
    if first > 10 * SHORTEST_S:
        return first
    calls = 1 if first > SHORTEST_S / 10 else 50
    return min(_durations(_repeated(call, calls), _TRIALS, clock)) / calls


def _repeated(call: Callable[[], object], calls: int) -> Callable[[], object]:
    if calls == 1:
        return call

    def repeat() -> None:
        for _ in range(calls):
            call()

    return repeat


def _durations(call: Callable[[], object], runs: int, clock: timing.Clock) -> tuple[float, ...]:
    workload = Workload(call, reset=lambda: None)
    return tuple(clock(workload).wall for _ in range(_WARMUP + runs))[_WARMUP:]
