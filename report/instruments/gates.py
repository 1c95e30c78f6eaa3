"""Gates that a measurement must pass before it is printed or pooled, and ceilings of a record.

One rule for the end of a run, for ``check`` and for papers; pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

import msgspec

from report.core.records.record import (
    Case,
    Ceiling,
    Environment,
    PeakOperation,
    Policy,
    Record,
    last_capacity,
)
from report.theory.work import flops, forward_macs

#: Processes whose times are further apart, in two groups, do not measure the same thing.
APART: Final = 1.25
#: Counts, such as page faults, from this on are another group than 0.
MANY: Final = 100
#: Runs whose medians are further apart are not one population.
AGREE: Final = 1.2
#: Copied times are equal or scaled: in most series, at least so many, the ratio of two medians is
#: the same within this share.
_FEWEST_SERIES: Final = 5
_SAME_RATIO: Final = 1e-4
#: Working sets of this many last-level caches are in memory; smaller ones are partly cached.
BEYOND_CACHES: Final = 4
#: A case may be this many times faster than the measured peak, since peaks scatter too.
SCATTER: Final = 1.25
#: Shorter times are below timer resolution (s): ticks of perf_counter_ns, and of CUDA events.
RESOLUTION_S: Final = {"cpu": 1e-7, "cuda": 5e-7}
#: No processor runs faster (Hz); records do not hold the clock under load.
FASTEST_HZ: Final = 6.2e9
#: Operations in float32 a core and cycle by the widest vectors: two units, each of them fused
#: multiply-adds.
_PER_CYCLE: Final = {"avx512f": 2 * 2 * 16, "avx2": 2 * 2 * 8, "avx": 2 * 8, "sse2": 2 * 4}
FLOAT32: Final = "float32"
#: Frequency governors that lower the clock between calls.
SLOW_GOVERNORS: Final = frozenset({"powersave", "ondemand", "conservative"})
_ARITHMETIC: Final[tuple[PeakOperation, ...]] = ("matrix_product", "convolution")
_BANDWIDTH: Final[tuple[PeakOperation, ...]] = ("copy", "read", "triad")
#: Operation -> the operations whose best rate bounds it.
_MEANT: Final[dict[str, tuple[PeakOperation, ...]]] = {
    "matrix_product": _ARITHMETIC,
    "copy": _BANDWIDTH,
}
CEILING_UNITS: Final[dict[str, str]] = {
    **dict.fromkeys(_ARITHMETIC, "FLOP/s"),
    **dict.fromkeys(_BANDWIDTH, "B/s"),
    "page_mapping": "1/s",
}


# --------------------------------------------------------------------------------------- series


def is_bimodal(medians: Iterable[float]) -> bool:
    """Tell whether processes fall into two groups further apart than ``APART``.

    A group has at least a fifth of them, and at least two of four or more; a single slow process is
    no group.
    """
    ordered = sorted(medians)
    smallest = max(1 if len(ordered) < 4 else 2, len(ordered) // 5)
    gaps = tuple(pairwise(ordered))[smallest - 1 : len(ordered) - smallest]
    return any(
        high > APART * low and (low > 0 or (low == 0 and high >= MANY)) for low, high in gaps
    )


def agree(one: Iterable[float], other: Iterable[float]) -> bool:
    """Tell whether two runs measured one population, by the medians of their processes."""
    low, high = sorted((median(one), median(other)))
    return high <= AGREE * low


def medians(case: Case, quantity: str, policy: Policy) -> tuple[float, ...]:
    """Return the median of each process that measured a case."""
    series = (round_.samples(quantity) for round_ in case.rounds_under(policy))
    return tuple(median(samples) for samples in series if samples)


def policies(case: Case) -> tuple[Policy, ...]:
    """List the memory policies under which processes measured a case."""
    return tuple(dict.fromkeys(r.policy for r in case.rounds if r.policy))


def bimodal_times(case: Case) -> Iterator[tuple[Policy, float, float]]:
    """Yield policies under which the times of a case are bimodal, with the extremes (s)."""
    for policy in policies(case):
        values = medians(case, "time", policy)
        if is_bimodal(values):
            yield policy, min(values), max(values)


def disagreeing(one: Record, other: Record) -> int:
    """Count the series of times in which two runs of one machine do not agree."""
    twins = {frozenset(case.factors.items()): case for case in other.cases}
    count = 0
    for case in one.cases:
        twin = twins.get(frozenset(case.factors.items()))
        if twin is None:
            continue
        for policy in policies(case):
            first, second = medians(case, "time", policy), medians(twin, "time", policy)
            if first and second and not agree(first, second):
                count += 1
    return count


def disturbed(records: Iterable[Record]) -> tuple[int, int] | None:
    """Count disturbed and monitored measurements; None if none was monitored.

    Formats without a memory policy and systems without /proc monitored none.
    """
    monitored = [
        round_.disturbance is not None
        for record in records
        if "disturbance" not in record.environment.missing
        for case in record.cases
        for round_ in case.rounds
        if round_.policy is not None and round_.status == "ok" and round_.samples("time")
    ]
    return (sum(monitored), len(monitored)) if monitored else None


# --------------------------------------------------------------------------------------- copies


class CopyDetector:
    """Detects copied and made-up records among those that it has seen.

    Two machines share no samples, ceilings or end of a run, and their times are not proportional.
    Runs of one machine may share ceilings.  No program has a hash of zeros.
    """

    def __init__(self) -> None:
        """Begin without a record."""
        self._seen: list[tuple[str, Record, dict[str, bytes], dict[object, float]]] = []

    def reason(self, name: str, record: Record) -> str:
        """Explain why a record cannot be a measurement of its own; empty if it can."""
        hashes = (record.code.commit, record.code.measuring_code)
        if any(hash and not hash.strip("0") for hash in hashes):
            return "has a commit or code hash of zeros, which no program has"
        marks, times = _marks(record), _median_times(record)
        for earlier, other, other_marks, other_times in self._seen:
            same = set(dict({*marks.items()} & {*other_marks.items()}))
            if record.environment.key == other.environment.key:
                same &= {"samples"}
            if "samples" not in same and _proportional(times, other_times):
                same |= {"times but for one factor"}
            if same:
                return f"has the same {' and '.join(sorted(same))} as {earlier}"
        self._seen.append((name, record, marks, times))
        return ""


def _marks(record: Record) -> dict[str, bytes]:
    """Return what no two machines share: the times of all cases, ceilings, the end of a run."""
    marks = {"end time": record.finished.encode()}
    all_series = (series for case in record.cases for series in case.all_series)
    if times := [series["time"] for series in all_series if "time" in series]:
        marks["samples"] = msgspec.json.encode(times)
    if record.ceilings:
        marks["ceilings"] = msgspec.json.encode([c.samples for c in record.ceilings])
    return marks


def _median_times(record: Record) -> dict[object, float]:
    """Return the median of each series of times, by case and process."""
    times: dict[object, float] = {}
    for case in record.cases:
        factors = frozenset(case.factors.items())
        for number, series in enumerate(case.all_series):
            if middle := median(series.get("time") or (0,)):
                times[factors, number] = middle
    return times


def _proportional(one: Mapping[object, float], other: Mapping[object, float]) -> bool:
    """True if most medians of both records have one ratio."""
    ratios = [other[key] / time for key, time in one.items() if key in other]
    if len(ratios) < _FEWEST_SERIES:
        return False
    middle = median(ratios)
    same = sum(abs(ratio - middle) <= _SAME_RATIO * middle for ratio in ratios)
    return 2 * same > len(ratios)


# ------------------------------------------------------------------------------------- ceilings


def problem(record: Record) -> str | None:
    """Explain why the rates of a record are impossible; None if they are possible."""
    best = best_of(record.ceilings)
    if best is None:
        return None
    limit = most_possible(record.environment)
    if limit is not None and best > limit:
        return (
            f"the measured peak of {best / 1e9:.0f} GFLOP/s is more than the cores can compute, "
            f"{limit / 1e9:.0f} GFLOP/s"
        )
    fastest = max(record.cases, key=forward_rate, default=None)
    if fastest is None or (rate := forward_rate(fastest)) <= SCATTER * best:
        return None
    factors = ", ".join(f"{name}={level}" for name, level in fastest.factors.items())
    disturbance = next((c.disturbance for c in record.ceilings if c.disturbance), None)
    cause = disturbance or "the machine was probably busy"
    return (
        f"case {factors} ran at {rate / 1e9:.0f} GFLOP/s, above the measured peak of "
        f"{best / 1e9:.0f} GFLOP/s; {cause} while the peak was measured"
    )


def bounding(record: Record, operation: str, dtype: str) -> tuple[Ceiling, ...]:
    """Return the ceilings whose best rate bounds ``operation``.

    A matrix product stands for all arithmetic in ``dtype``, a copy for all ways to move bytes from
    or to memory; every other operation stands for itself.  On a GPU products alone stand for
    arithmetic: its libraries compute convolutions with fewer multiplications than their direct form
    has, so that their rate can exceed what the device can multiply.
    """
    operations = _MEANT.get(operation, (operation,))
    if record.environment.device == "cuda" and operation in _ARITHMETIC:
        operations = (operation,)
    ceilings = [c for c in record.ceilings if c.operation in operations and c.samples]
    if operation in _ARITHMETIC:
        return tuple(ceiling for ceiling in ceilings if ceiling.dtype == dtype)
    if operation in _BANDWIDTH:
        return beyond_caches(ceilings, record.environment)
    return tuple(ceilings)


def beyond_caches(ceilings: Iterable[Ceiling], environment: Environment) -> tuple[Ceiling, ...]:
    """Return the ceilings of bandwidth whose working set lies in memory.

    Where the caches are not known (an old record, a GPU) these are the largest ones, down to half
    of the largest; where no working set is known it is all.
    """
    every = tuple(ceilings)
    host = environment.host if environment.device == "cpu" else None
    sizes = [ceiling.working_set for ceiling in every if ceiling.working_set is not None]
    if not sizes:
        return every
    last = last_capacity(host.caches, environment.cpu.cores_available) if host else None
    least = max(sizes) / 2 if last is None else BEYOND_CACHES * last
    return tuple(c for c in every if c.working_set is not None and c.working_set >= least)


def rate(ceiling: Ceiling) -> float:
    """Divide work by time (FLOP/s, B/s or pages a second).

    The shortest time counts where an instrument is named, as STREAM reports it (McCalpin 1995),
    else the median.
    """
    times = map(float, ceiling.samples)
    return ceiling.work / (median(times) if ceiling.instrument is None else min(times))


def bounding_rate(record: Record, operation: str, dtype: str = FLOAT32) -> float | None:
    """Return the best rate of the ceilings that bound ``operation``; None if none was measured."""
    return max(map(rate, bounding(record, operation, dtype)), default=None)


def state_notes(environment: Environment) -> Iterator[str]:
    """Yield what the state of the processors does to times, a sentence each."""
    state = environment.conditions
    if throttled := state.get("throttled"):
        yield f"heat slowed the processors {throttled} during the run"
    if kinds := state.get("kinds"):
        yield f"threads ran on cores of several kinds ({kinds})"
    if (siblings := state.get("siblings")) and environment.threads > 1:
        yield f"threads may have shared cores ({siblings})"
    if (governor := state.get("governor", "")) and set(governor.split(", ")) & SLOW_GOVERNORS:
        yield f"the governor {governor} lowers the clock between calls"


def best_of(ceilings: Iterable[Ceiling]) -> float | None:
    """Return the best rate of arithmetic in float32 (FLOP/s); None if none was measured."""
    return max((c.work / min(c.samples) for c in ceilings if _is_arithmetic(c)), default=None)


def most_possible(environment: Environment) -> float | None:
    """Return cores × vector width × clock (FLOP/s in float32) of a CPU with known vectors."""
    flags: Sequence[str] = environment.host.flags if environment.host else ()
    width = next((n for name, n in _PER_CYCLE.items() if name in flags), None)
    if environment.device == "cuda" or width is None:
        return None
    return environment.threads * width * FASTEST_HZ


def _is_arithmetic(ceiling: Ceiling) -> bool:
    is_float = ceiling.dtype == FLOAT32 and ceiling.work_unit == "FLOP"
    return is_float and bool(ceiling.samples) and min(ceiling.samples) > 0


def forward_rate(case: Case) -> float:
    """Divide the forward work of a float32 case by its shortest time (FLOP/s); 0 without a time.

    A pass does at least its forward work, so that the case's real rate is no lower.
    """
    single = case.factors.get("precision", FLOAT32) == FLOAT32
    single = single and all(layer.dtype == FLOAT32 for layer in case.layers)
    times = case.samples("time") if case.status == "ok" and single else ()
    return flops(forward_macs(case.layers)) / min(times) if times and min(times) > 0 else 0.0
