"""Checks that measurements must pass before papers print or pool them, and ceilings of a record.

A case is one combination of factors.  Runs are pooled if their times count as one sample.  A
ceiling is a measured peak rate of arithmetic or memory.  The end of a run, the command ``check``
and papers all use these checks.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import chain, pairwise
from statistics import median
from typing import Final, TypeAlias

import msgspec

from report.core.records.record import (
    Case,
    Ceiling,
    Environment,
    Level,
    PeakOperation,
    Policy,
    Record,
    Round,
    last_cache_bytes,
)
from report.theory.work import flops, forward_macs

#: If the ratio of two medians of processes is larger, the machine was in two states.
BIMODAL_RATIO: Final = 1.25
#: If one process counts 0 (page faults) and another at least this, the machine was in two states.
BIMODAL_COUNT: Final = 100
#: Largest ratio of the medians of two runs that may be pooled.
AGREEMENT_RATIO: Final = 1.2
#: Smallest number of series that can show that times were copied or scaled.
_FEWEST_SERIES: Final = 5
#: Relative tolerance within which ratios of medians count as equal.
_RATIO_TOLERANCE: Final = 1e-4
#: A working set of at least this many times the last-level cache is read from memory.
BEYOND_CACHES: Final = 4
#: The rate of a case may be this many times the measured peak, since measured peaks scatter.
PEAK_SCATTER: Final = 1.25
#: Timer resolution (s) of perf_counter_ns and of CUDA events.
RESOLUTION_S: Final = {"cpu": 1e-7, "cuda": 5e-7}
#: Highest clock of any processor (Hz); records do not contain the clock under load.
FASTEST_HZ: Final = 6.2e9
#: Vector extension → most float32 FLOP per core and cycle.  A core has two vector units of 16, 8 or
#: 4 numbers; from AVX2 on, a unit computes fused multiply-adds (2 FLOP per number).
_FLOP_PER_CYCLE: Final = {"avx512f": 2 * 2 * 16, "avx2": 2 * 2 * 8, "avx": 2 * 8, "sse2": 2 * 4}
#: Type of numbers in which ceilings of arithmetic are measured unless another type is named.
FLOAT32: Final = "float32"
#: Frequency governors that lower the clock between calls.
SLOW_GOVERNORS: Final = frozenset({"powersave", "ondemand", "conservative"})
#: Operations whose rate is measured in FLOP/s.
_ARITHMETIC: Final[tuple[PeakOperation, ...]] = ("matrix_product", "convolution")
#: Operations whose rate is measured in B/s.
_BANDWIDTH: Final[tuple[PeakOperation, ...]] = ("copy", "read", "triad")
#: Operation → measured operations whose best rate is the operation's ceiling.  The default is the
#: operation alone.
_BOUNDING_OPERATIONS: Final[dict[str, tuple[PeakOperation, ...]]] = {
    "matrix_product": _ARITHMETIC,
    "copy": _BANDWIDTH,
}
#: Operation → unit of its rate.
CEILING_UNITS: Final[dict[str, str]] = {
    **dict.fromkeys(_ARITHMETIC, "FLOP/s"),
    **dict.fromkeys(_BANDWIDTH, "B/s"),
    "page_mapping": "1/s",
}

#: (factors of a case, memory policy) → median time of every process (s).
ProcessTimes: TypeAlias = dict[tuple[frozenset[tuple[str, Level]], Policy], tuple[float, ...]]


def is_bimodal(medians: Iterable[float]) -> bool:
    """Tell whether the medians of processes form two groups.

    The ratio of the second group's smallest to the first group's largest median is more than
    ``BIMODAL_RATIO``, or the first group ends at 0 and the second begins at ``BIMODAL_COUNT`` or
    more.  A group has at least a fifth of the processes.  With four or more processes, a group has
    at least two, so that a single slow process is not a group.
    """
    ordered = sorted(medians)
    smallest_group = max(1 if len(ordered) < 4 else 2, len(ordered) // 5)
    neighbours = list(pairwise(ordered))
    for low, high in neighbours[smallest_group - 1 : len(ordered) - smallest_group]:
        if low > 0 and high > BIMODAL_RATIO * low:
            return True
        if low == 0 and high >= BIMODAL_COUNT:
            return True
    return False


def runs_agree(one: Iterable[float], other: Iterable[float]) -> bool:
    """Tell whether two runs may be pooled, given the medians of their processes."""
    low, high = sorted((median(one), median(other)))
    return high <= AGREEMENT_RATIO * low


def process_medians(case: Case, quantity: str, policy: Policy) -> tuple[float, ...]:
    """Return the median of every process that measured a quantity of a case under a policy."""
    series = (round_.samples(quantity) for round_ in case.rounds_under(policy))
    return tuple(median(samples) for samples in series if samples)


def policies(case: Case) -> tuple[Policy, ...]:
    """List the memory policies (allocator settings) under which processes measured a case."""
    return tuple(dict.fromkeys(round_.policy for round_ in case.rounds if round_.policy))


def bimodal_times(case: Case) -> Iterator[tuple[Policy, float, float]]:
    """Yield (policy, smallest, largest median of a process in s) where times are bimodal."""
    for policy in policies(case):
        medians = process_medians(case, "time", policy)
        if is_bimodal(medians):
            yield policy, min(medians), max(medians)


def process_times(record: Record) -> ProcessTimes:
    """Return the median time of every process, by case and memory policy."""
    times: ProcessTimes = {}
    for case in record.cases:
        factors = frozenset(case.factors.items())
        for policy in policies(case):
            times[factors, policy] = process_medians(case, "time", policy)
    return times


def count_disagreeing(one: ProcessTimes, other: ProcessTimes) -> int:
    """Count the cases and policies for which the times of two runs of one machine do not agree."""
    count = 0
    for series, times in one.items():
        other_times = other.get(series)
        if times and other_times and not runs_agree(times, other_times):
            count += 1
    return count


def count_disturbed(records: Iterable[Record]) -> tuple[int, int] | None:
    """Return the numbers of disturbed and of monitored measurements; None if none was monitored.

    A measurement is disturbed if other programs ran.  Measurements were not monitored if their
    record has an old format without memory policies, or is from a system without /proc.
    """
    monitored: list[Round] = []
    for record in records:
        if "disturbance" in record.environment.missing:
            continue
        for round_ in chain.from_iterable(case.rounds for case in record.cases):
            if round_.policy is not None and round_.status == "ok" and round_.samples("time"):
                monitored.append(round_)
    if not monitored:
        return None
    return sum(round_.disturbance is not None for round_ in monitored), len(monitored)


class CopyDetector:
    """Detector of copied and invented records.

    A record is refused in four cases:

    - its commit or its hash of the measuring code consists of zeros;
    - all samples of its times equal the samples of an earlier record;
    - all samples of its ceilings, or its end time, equal those of another machine's earlier record;
    - at least ``_FEWEST_SERIES`` median times can be compared with an earlier record, and most of
      them have the same ratio to the earlier median times.
    """

    def __init__(self) -> None:
        """Begin without earlier records."""
        #: Name, record, unique content and median times of each earlier record.
        self._earlier: list[tuple[str, Record, dict[str, bytes], dict[object, float]]] = []

    def reason(self, name: str, record: Record) -> str:
        """Explain why a record is refused; if it is accepted, remember it and return ""."""
        code_hashes = (record.code.commit, record.code.measuring_code)
        if any(code_hash and not code_hash.strip("0") for code_hash in code_hashes):
            return "has a commit or code hash of zeros, which no program has"
        content, times = _unique_content(record), _median_times(record)
        for earlier_name, earlier, earlier_content, earlier_times in self._earlier:
            same = {kind for kind, text in content.items() if earlier_content.get(kind) == text}
            if record.environment.key == earlier.environment.key:
                same &= {"samples"}
            if "samples" not in same and _proportional(times, earlier_times):
                same |= {"times up to a factor"}
            if same:
                return f"has the same {' and '.join(sorted(same))} as {earlier_name}"
        self._earlier.append((name, record, content, times))
        return ""


def _unique_content(record: Record) -> dict[str, bytes]:
    """Return what two machines never share: digests of times and ceilings, the end of the run."""
    content = {"end time": record.finished.encode()}
    all_series = chain.from_iterable(case.all_series for case in record.cases)
    times = [series["time"] for series in all_series if "time" in series]
    if times:
        content["samples"] = sha256(msgspec.json.encode(times, enc_hook=list)).digest()
    if record.ceilings:
        samples = [ceiling.samples for ceiling in record.ceilings]
        content["ceilings"] = sha256(msgspec.json.encode(samples)).digest()
    return content


def _median_times(record: Record) -> dict[object, float]:
    """Map (factors of the case, number of the series) to the median time, if it is above 0."""
    medians: dict[object, float] = {}
    for case in record.cases:
        factors = frozenset(case.factors.items())
        for number, series in enumerate(case.all_series):
            samples = series.get("time")
            if samples and median(samples) > 0:
                medians[factors, number] = median(samples)
    return medians


def _proportional(one: Mapping[object, float], other: Mapping[object, float]) -> bool:
    """Tell whether most of at least ``_FEWEST_SERIES`` shared medians have the same ratio."""
    ratios = [other[key] / time for key, time in one.items() if key in other]
    if len(ratios) < _FEWEST_SERIES:
        return False
    median_ratio = median(ratios)
    equal = sum(abs(ratio - median_ratio) <= _RATIO_TOLERANCE * median_ratio for ratio in ratios)
    return 2 * equal > len(ratios)


def impossible_rate(record: Record) -> str | None:
    """Explain why the peak or the rate of a case is impossible; None if both are possible."""
    best = best_arithmetic_rate(record.ceilings)
    if best is None:
        return None
    limit = highest_possible_rate(record.environment)
    if limit is not None and best > limit:
        return (
            f"the measured peak of {best / 1e9:.0f} GFLOP/s is more than the cores can compute, "
            f"{limit / 1e9:.0f} GFLOP/s"
        )
    fastest = max(record.cases, key=forward_rate, default=None)
    if fastest is None:
        return None
    rate = forward_rate(fastest)
    if rate <= PEAK_SCATTER * best:
        return None
    factors = ", ".join(f"{name}={level}" for name, level in fastest.factors.items())
    disturbances = [c.disturbance for c in record.ceilings if c.disturbance]
    cause = disturbances[0] if disturbances else "the machine was probably busy"
    return (
        f"case {factors} ran at {rate / 1e9:.0f} GFLOP/s, above the measured peak of "
        f"{best / 1e9:.0f} GFLOP/s; {cause} while the peak was measured"
    )


def bounding_ceilings(record: Record, operation: str, dtype: str) -> tuple[Ceiling, ...]:
    """Return the ceilings whose best rate limits the rate of ``operation``.

    All arithmetic in ``dtype`` limits ``matrix_product``.  All operations that move bytes from or
    to memory limit ``copy``.  Every other operation is limited by its own ceilings.  On a GPU only
    products limit ``matrix_product``, because libraries compute convolutions with fewer
    multiplications than the direct form: the rate of a convolution can exceed the device's peak.
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
    """Return the ceilings of bandwidth whose working set is in memory, not in caches.

    If the caches are unknown (old record, GPU), the ceilings with at least half of the largest
    working set are returned.  If no working set is known, all ceilings are returned.
    """
    candidates = tuple(ceilings)
    host = environment.host if environment.device == "cpu" else None
    sizes = [ceiling.working_set for ceiling in candidates if ceiling.working_set is not None]
    if not sizes:
        return candidates
    last_cache = last_cache_bytes(host.caches, environment.cpu.cores_available) if host else None
    smallest = max(sizes) / 2 if last_cache is None else BEYOND_CACHES * last_cache
    return tuple(c for c in candidates if c.working_set is not None and c.working_set >= smallest)


def ceiling_rate(ceiling: Ceiling) -> float:
    """Return the work of a ceiling divided by its time (FLOP/s, B/s or pages/s).

    If the ceiling names an instrument, the time is the shortest time, as in STREAM (McCalpin 1995).
    Otherwise it is the median time.
    """
    times = [float(sample) for sample in ceiling.samples]
    time = median(times) if ceiling.instrument is None else min(times)
    return ceiling.work / time


def bounding_rate(record: Record, operation: str, dtype: str = FLOAT32) -> float | None:
    """Return the best rate of the ceilings that limit ``operation``; None without such ceilings."""
    rates = [ceiling_rate(ceiling) for ceiling in bounding_ceilings(record, operation, dtype)]
    return max(rates, default=None)


def state_notes(environment: Environment) -> Iterator[str]:
    """Yield sentences about conditions of the processors that change times."""
    state = environment.conditions
    if throttled := state.get("throttled"):
        yield f"heat slowed the processors {throttled} during the run"
    if kinds := state.get("kinds"):
        yield f"threads ran on cores of several kinds ({kinds})"
    siblings = state.get("siblings")
    if siblings and environment.threads > 1:
        yield f"threads may have shared cores ({siblings})"
    governors = state.get("governor", "")
    if not SLOW_GOVERNORS.isdisjoint(governors.split(", ")):
        yield f"the governor {governors} lowers the clock between calls"


def best_arithmetic_rate(ceilings: Iterable[Ceiling]) -> float | None:
    """Return the best float32 rate of ``ceilings`` (FLOP/s), or None if there is no such rate."""
    rates: list[float] = []
    for ceiling in ceilings:
        is_float32 = ceiling.dtype == FLOAT32 and ceiling.work_unit == "FLOP"
        if is_float32 and min(ceiling.samples, default=0) > 0:
            rates.append(ceiling.work / min(ceiling.samples))
    return max(rates, default=None)


def highest_possible_rate(environment: Environment) -> float | None:
    """Return threads × FLOP per cycle × clock (float32 FLOP/s), or None on a GPU or unknown CPU."""
    if environment.device == "cuda" or environment.host is None:
        return None
    for extension, flop_per_cycle in _FLOP_PER_CYCLE.items():
        if extension in environment.host.flags:
            return environment.threads * flop_per_cycle * FASTEST_HZ
    return None


def forward_rate(case: Case) -> float:
    """Return a case's forward work divided by the shortest time (FLOP/s).

    Returns 0 if the case failed, has no times or a time of 0, or uses another type than float32.  A
    call executes at least the forward work, so that the true rate is not lower.
    """
    is_float32 = case.factors.get("precision", FLOAT32) == FLOAT32
    is_float32 = is_float32 and all(layer.dtype == FLOAT32 for layer in case.layers)
    times = case.samples("time") if case.status == "ok" and is_float32 else ()
    if not times or min(times) <= 0:
        return 0.0
    return flops(forward_macs(case.layers)) / min(times)
