"""Checks that measurements must pass before papers print or pool them, and ceilings of a record.

The same rules hold at the end of a run, in ``check`` and in papers; pure.
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

#: Smallest ratio between two groups of processes that measured different states of the machine.
BIMODAL_RATIO: Final = 1.25
#: Smallest count, such as page faults, that forms another group than a count of 0.
BIMODAL_COUNT: Final = 100
#: Largest ratio of the medians of two runs that measured one population.
AGREEMENT_RATIO: Final = 1.2
#: Fewest series that can show that times were copied or scaled.
_FEWEST_SERIES: Final = 5
#: Relative tolerance for equal ratios of medians.
_SAME_RATIO: Final = 1e-4
#: Working sets of at least this many last-level caches lie in memory; others are partly cached.
BEYOND_CACHES: Final = 4
#: A case may be this many times faster than the measured peak, since peaks scatter.
PEAK_SCATTER: Final = 1.25
#: Timer resolution (s) of perf_counter_ns and of CUDA events.
RESOLUTION_S: Final = {"cpu": 1e-7, "cuda": 5e-7}
#: Highest clock of any processor (Hz); records do not contain the clock under load.
FASTEST_HZ: Final = 6.2e9
#: Vector extension → most float32 FLOP per core and cycle: two units; fused since AVX2.
_FLOP_PER_CYCLE: Final = {"avx512f": 2 * 2 * 16, "avx2": 2 * 2 * 8, "avx": 2 * 8, "sse2": 2 * 4}
FLOAT32: Final = "float32"
#: Frequency governors that lower the clock between calls.
SLOW_GOVERNORS: Final = frozenset({"powersave", "ondemand", "conservative"})
_ARITHMETIC: Final[tuple[PeakOperation, ...]] = ("matrix_product", "convolution")
_BANDWIDTH: Final[tuple[PeakOperation, ...]] = ("copy", "read", "triad")
#: Operation → measured operations whose best rate is its ceiling.
_BOUNDING_OPERATIONS: Final[dict[str, tuple[PeakOperation, ...]]] = {
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
    """Return whether the medians of processes form two groups, ``BIMODAL_RATIO`` or more apart.

    A group has at least a fifth of the processes.  With four or more processes, a group has at
    least two, so that a single slow process is not a group.
    """
    ordered = sorted(medians)
    smallest = max(1 if len(ordered) < 4 else 2, len(ordered) // 5)
    gaps = tuple(pairwise(ordered))[smallest - 1 : len(ordered) - smallest]
    return any(
        high > BIMODAL_RATIO * low and (low > 0 or (low == 0 and high >= BIMODAL_COUNT))
        for low, high in gaps
    )


def agree(one: Iterable[float], other: Iterable[float]) -> bool:
    """Return whether two runs measured one population, by the medians of processes."""
    low, high = sorted((median(one), median(other)))
    return high <= AGREEMENT_RATIO * low


def medians(case: Case, quantity: str, policy: Policy) -> tuple[float, ...]:
    """Return the median of every process that measured a case."""
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
    """Count the series of times for which two runs of one machine do not agree."""
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
    """Count disturbed measurements and monitored measurements; None without monitoring.

    Old formats, which have no memory policy, and systems without /proc have no monitoring.
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
    """Detector of copied and invented records, by comparison with all earlier records.

    Records of two machines have different samples, ceilings and end times, and times that are not
    proportional.  Runs of one machine may share ceilings.  No program has a hash of zeros.
    """

    def __init__(self) -> None:
        """Begin without earlier records."""
        self._seen: list[tuple[str, Record, dict[str, bytes], dict[object, float]]] = []

    def reason(self, name: str, record: Record) -> str:
        """Explain why a record is not an independent measurement; empty if it is."""
        hashes = (record.code.commit, record.code.measuring_code)
        if any(hash and not hash.strip("0") for hash in hashes):
            return "has a commit or code hash of zeros, which no program has"
        marks, times = _unique_content(record), _median_times(record)
        for earlier, other, other_marks, other_times in self._seen:
            same = set(dict({*marks.items()} & {*other_marks.items()}))
            if record.environment.key == other.environment.key:
                same &= {"samples"}
            if "samples" not in same and _proportional(times, other_times):
                same |= {"times up to a factor"}
            if same:
                return f"has the same {' and '.join(sorted(same))} as {earlier}"
        self._seen.append((name, record, marks, times))
        return ""


def _unique_content(record: Record) -> dict[str, bytes]:
    """Return content that two machines never share: times, ceilings, and the end of the run."""
    marks = {"end time": record.finished.encode()}
    all_series = (series for case in record.cases for series in case.all_series)
    if times := [series["time"] for series in all_series if "time" in series]:
        marks["samples"] = msgspec.json.encode(times)
    if record.ceilings:
        marks["ceilings"] = msgspec.json.encode([c.samples for c in record.ceilings])
    return marks


def _median_times(record: Record) -> dict[object, float]:
    """Return the median of every series of times, by case and process."""
    times: dict[object, float] = {}
    for case in record.cases:
        factors = frozenset(case.factors.items())
        for number, series in enumerate(case.all_series):
            if middle := median(series.get("time") or (0,)):
                times[factors, number] = middle
    return times


def _proportional(one: Mapping[object, float], other: Mapping[object, float]) -> bool:
    """Return whether most medians of two records have the same ratio."""
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
    if fastest is None or (rate := forward_rate(fastest)) <= PEAK_SCATTER * best:
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

    ``matrix_product`` is bounded by all arithmetic in ``dtype``, ``copy`` by all operations that
    move bytes from or to memory, every other operation by itself.  On a GPU only products bound
    arithmetic: libraries compute convolutions with fewer multiplications than the direct form, so
    that the rate of a convolution can exceed the device's peak.
    """
    operations = _BOUNDING_OPERATIONS.get(operation, (operation,))
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

    If the caches are unknown (old record, GPU), return ceilings with at least half of the largest
    working set; if no working set is known, return all ceilings.
    """
    candidates = tuple(ceilings)
    host = environment.host if environment.device == "cpu" else None
    sizes = [ceiling.working_set for ceiling in candidates if ceiling.working_set is not None]
    if not sizes:
        return candidates
    last = last_capacity(host.caches, environment.cpu.cores_available) if host else None
    least = max(sizes) / 2 if last is None else BEYOND_CACHES * last
    return tuple(c for c in candidates if c.working_set is not None and c.working_set >= least)


def rate(ceiling: Ceiling) -> float:
    """Return work divided by time (FLOP/s, B/s or pages/s).

    With a named instrument the time is the shortest, as in STREAM (McCalpin 1995), else the median.
    """
    times = map(float, ceiling.samples)
    return ceiling.work / (median(times) if ceiling.instrument is None else min(times))


def bounding_rate(record: Record, operation: str, dtype: str = FLOAT32) -> float | None:
    """Return the best rate of the ceilings that bound ``operation``; None without a ceiling."""
    return max(map(rate, bounding(record, operation, dtype)), default=None)


def state_notes(environment: Environment) -> Iterator[str]:
    """Yield sentences about conditions of the processors that change times."""
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
    """Return the best float32 rate of the ceilings (FLOP/s); None without such a ceiling."""
    return max((c.work / min(c.samples) for c in ceilings if _is_arithmetic(c)), default=None)


def most_possible(environment: Environment) -> float | None:
    """Return cores × vector width × clock (FLOP/s in float32) of a CPU with known vectors."""
    flags: Sequence[str] = environment.host.flags if environment.host else ()
    width = next((n for name, n in _FLOP_PER_CYCLE.items() if name in flags), None)
    if environment.device == "cuda" or width is None:
        return None
    return environment.threads * width * FASTEST_HZ


def _is_arithmetic(ceiling: Ceiling) -> bool:
    is_float = ceiling.dtype == FLOAT32 and ceiling.work_unit == "FLOP"
    return is_float and bool(ceiling.samples) and min(ceiling.samples) > 0


def forward_rate(case: Case) -> float:
    """Return a float32 case's forward work divided by the shortest time (FLOP/s); 0 without times.

    A call does at least the forward work, so that the true rate is not lower.
    """
    is_float32 = case.factors.get("precision", FLOAT32) == FLOAT32
    is_float32 = is_float32 and all(layer.dtype == FLOAT32 for layer in case.layers)
    times = case.samples("time") if case.status == "ok" and is_float32 else ()
    return flops(forward_macs(case.layers)) / min(times) if times and min(times) > 0 else 0.0
