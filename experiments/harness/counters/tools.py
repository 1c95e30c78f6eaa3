"""The programs that count executed work, by the device on which they count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from experiments.harness import runtime
from experiments.harness.counters import lackey, ncu
from experiments.harness.counters.plan import Event, Job, Plan
from experiments.harness.study import Counting, Device, Factors
from report.instruments.counters import lackey as lackey_logs
from report.instruments.counters import ncu_logs
from report.records.record import Series


def _nothing_missing(logs: Mapping[str, str], place: str) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Tool:
    """A program that counts: where, how it is run, and how what it prints is read.

    ``quantities`` are those that a case has in any event, the one to tell of first; ``meaning``
    that of the file beside the record.  ``calls`` says how often a case is called, 0 to leave it
    out; the last argument asks for all that can be counted.  ``series`` and ``missing`` read the
    logs of a case: what they say, and for each quantity that they do not give, the reason.
    """

    name: str
    device: Device
    quantities: tuple[str, ...]
    meaning: str
    unavailable: Callable[[], str | None]
    count: Callable[[Plan], Iterator[Event]]
    calls: Callable[[Counting, Factors, bool], int]
    start_s: float
    seconds: Callable[[Job], float]
    at_once: Callable[[], int]
    series: Callable[[Mapping[str, str], str], tuple[Series, ...]]
    missing: Callable[[Mapping[str, str], str], Mapping[str, str]] = _nothing_missing


def calls_on_cpu(counting: Counting, factors: Factors, thorough: bool) -> int:
    """As the study says for a program that makes a case a thousand times slower."""
    return counting.calls(factors, thorough)


def calls_on_gpu(counting: Counting, factors: Factors, thorough: bool) -> int:
    """As the study says for counters that only replay each kernel."""
    return counting.calls_on_gpu(factors, thorough)


TOOLS: Final = (
    Tool(
        name=lackey_logs.TOOL,
        device="cpu",
        quantities=(lackey_logs.MULTIPLY_ADDS,),
        meaning="the logs of valgrind's lackey for each case that it counted, by process",
        unavailable=lackey.unavailable,
        count=lackey.count,
        calls=calls_on_cpu,
        start_s=lackey.START_S,
        seconds=lackey.seconds,
        at_once=runtime.cores_available,
        series=lackey_logs.series_of,
    ),
    Tool(
        name=ncu_logs.TOOL,
        device="cuda",
        quantities=ncu_logs.QUANTITIES,
        meaning="the table that Nsight Compute printed, cut to each case that it counted",
        unavailable=ncu.unavailable,
        count=ncu.count,
        calls=calls_on_gpu,
        start_s=0.0,
        seconds=ncu.seconds,
        at_once=lambda: 1,
        series=ncu_logs.series_of,
        missing=ncu_logs.missing_of,
    ),
)
