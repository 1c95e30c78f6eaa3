"""Values of expressions with intervals, at the confidence level that the data allow.

A part of an expression whose series share processes is computed once per process: drift and memory
placement cancel, and one interval follows from the results.  Processes that lack one of the series
are left out.  With six runs or more, each run counts as one sample of the interval.  With fewer
runs each process counts, and the interval is widened to contain the median of every run.

Parts without shared processes are combined by the ends of their intervals.  The level of each
interval is raised so that all intervals hold together (Bonferroni).
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Final, TypeAlias

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, Estimate, bonferroni, median_interval
from report.core.text.format import Number
from report.instruments.gates import is_bimodal
from report.quantity.expression import (
    Bounds,
    Derived,
    Exact,
    Inferred,
    Leaf,
    Quantity,
    ReportedNumber,
    Sampled,
    absent,
    exact,
)
from report.quantity.intervals import calls_interval
from report.quantity.units import ONE

ValueOfSeries: TypeAlias = Callable[[Sampled], float]

#: Identity of a process: names of run and process.
Key: TypeAlias = tuple[str, str]

#: Fewest runs that count as the samples of an interval; with fewer runs the processes count.
ENOUGH_RUNS: Final = 6


def estimate(quantity: Quantity, confidence: float = CONFIDENCE) -> Estimate | Missing:
    """Compute the value of ``quantity`` with its interval.

    The result has the requested ``confidence``, or a lower level if the data allow no more.
    Without measurements the level is 1, and the interval has width 0 or the width of the printed
    digits.  The result is missing if a leaf is missing, or if the interval of a divisor contains 0.
    """
    known = quantity.estimates
    if confidence not in known:
        known[confidence] = _estimate(quantity, confidence)
    return known[confidence]


def _estimate(quantity: Quantity, confidence: float) -> Estimate | Missing:
    if quantity.missing:
        return quantity.missing
    parts = tuple(dict.fromkeys(_parts_with_intervals(quantity)))
    try:
        intervals = _intervals(parts, confidence)
        value, low, high = _bounds(quantity, intervals)
    except ArithmeticError as error:
        return Missing(str(error))
    lost = sum(1 - interval.confidence for interval in intervals.values())
    reached = max(0.0, round(1 - lost, 12)) if parts else 1.0
    level = min(reached, confidence if parts else 1.0)
    bimodal = any(interval.bimodal for interval in intervals.values())
    return Estimate(value, low, high, samples(quantity), level, bimodal)


def number(quantity: Quantity, confidence: float = CONFIDENCE) -> Number | Estimate | Missing:
    """Return the value for printing; exact if no part was measured or rounded.

    Whole numbers are returned as ``int``, however large.
    """
    if quantity.missing:
        return quantity.missing
    if not all(isinstance(leaf, Exact) for leaf in quantity.leaves):
        result = estimate(quantity, confidence)
        if isinstance(result, Missing) or not result.low == result.high == round(result.value):
            return result
        return int(result.value)
    try:
        exact_value = value(quantity, _median)
    except ArithmeticError as error:
        return Missing(str(error))
    return int(exact_value) if exact_value == int(exact_value) else float(exact_value)


def point(quantity: Quantity) -> float | Missing:
    """Return the value of a quantity without its interval."""
    result = estimate(quantity)
    return result if isinstance(result, Missing) else result.value


def to_digits(quantity: Quantity, digits: int) -> Quantity:
    """Round to ``digits`` significant digits."""
    rounded, name, unit = point(quantity), f"{quantity.formula}, to {digits} digits", quantity.unit
    if isinstance(rounded, Missing):
        return absent(name, str(unit), rounded.reason)
    file, *further = quantity.sources or ("",)
    return exact(name, str(unit), float(f"{rounded:.{digits}g}"), file, tuple(further))


def _intervals(parts: Sequence[Quantity], confidence: float) -> dict[Quantity, Estimate]:
    """Compute an interval for each part, so that all hold together with ``confidence``.

    The parts get equal shares of the error probability.  A part that needs a larger share (with six
    processes 3 %) gets the larger share, and the other parts share the rest.
    """
    if not parts:
        return {}
    share = bonferroni(confidence, len(parts))
    intervals = {part: _interval_of_part(part, share) for part in parts}
    rest = [part for part in parts if intervals[part].confidence >= share]
    left = (1 - confidence) - sum(1 - intervals[p].confidence for p in parts if p not in rest)
    if len(rest) in (0, len(parts)) or left <= 0:
        return intervals
    return {
        **intervals,
        **{part: _interval_of_part(part, bonferroni(1 - left, len(rest))) for part in rest},
    }


def samples(quantity: Quantity) -> int:
    """Return the smallest number of samples of any part; 0 if none was measured."""
    counts = []
    for leaf in quantity.leaves:
        if isinstance(leaf, Inferred):
            counts.append(leaf.interval(CONFIDENCE).n)
        elif isinstance(leaf, Sampled):
            counts.append(sum(len(process.samples) for process in leaf.processes))
    return min(counts, default=0)


def _parts_with_intervals(quantity: Quantity) -> Iterator[Quantity]:
    """Yield the largest parts whose series share two or more processes, and all other series."""
    measured = [leaf for leaf in quantity.leaves if isinstance(leaf, Sampled | Inferred)]
    if not measured:
        return
    together = len(_shared(measured)) > 1 and not quantity.widened
    if together or not quantity.parts:
        yield quantity
        return
    for part in quantity.parts:
        yield from _parts_with_intervals(part)


def compared_in_pairs(quantity: Quantity) -> bool:
    """Tell whether a quantity is dimensionless and all its series share processes."""
    if quantity.unit != ONE:
        return False
    for part in _parts_with_intervals(quantity):
        measured = [leaf for leaf in part.leaves if isinstance(leaf, Sampled | Inferred)]
        if len(measured) < 2 or not all(isinstance(leaf, Sampled) for leaf in measured):
            return False
    return True


def in_only_process(quantity: Quantity) -> float | None:
    """Compute a quantity in the only process that measured all its series, if there is just one."""
    series = [leaf for leaf in quantity.leaves if isinstance(leaf, Sampled)]
    keys = _shared(series) if series else ()
    return value(quantity, partial(_median_of, keys[0])) if len(keys) == 1 else None


def _shared(leaves: Sequence[Leaf]) -> tuple[Key, ...]:
    """Return the processes that all ``leaves`` share; an inferred number has no processes."""
    first, *others = (leaf.keys if isinstance(leaf, Sampled) else () for leaf in leaves)
    shared = first
    for keys in others:
        if keys != first:
            shared = tuple(key for key in shared if key in keys)
    return shared


def _interval_of_part(part: Quantity, confidence: float) -> Estimate:
    """Compute the interval of a part from its values in single processes, or in single runs."""
    if isinstance(part, Inferred):
        return part.interval(confidence)
    leaves = [leaf for leaf in part.leaves if isinstance(leaf, Sampled)]
    if leaves[0].alone:
        process = leaves[0].processes[0]
        return calls_interval(process.samples, confidence, process.inflation)
    results: list[float] = []
    by_run: dict[str, list[float]] = {}
    for key in _shared(leaves):
        result = value(part, partial(_median_of, key))
        results.append(result)
        by_run.setdefault(key[0], []).append(result)
    if is_bimodal(results) and any(is_bimodal(leaf.medians.values()) for leaf in leaves):
        n, low, high = len(results), min(results), max(results)
        # A bound that every pair of processes exceeds is exceeded by both groups.
        level = min(confidence, 1 - 2.0 ** (1 - n)) if compared_in_pairs(part) else 0.0
        return Estimate(statistics.median(results), low, high, n, level, bimodal=True)
    medians = [statistics.median(values) for values in by_run.values()]
    if len(medians) >= ENOUGH_RUNS:
        return median_interval(medians, confidence)
    return _widened_to(medians, median_interval(results, confidence))


def _median_of(key: Key, leaf: Sampled) -> float:
    return leaf.medians[key]


def _widened_to(medians: Sequence[float], interval: Estimate) -> Estimate:
    """Widen the interval of few runs to contain the ``medians`` of all runs.

    Processes of one run are fast or slow for common reasons, so that many processes say little
    about the next run.  The interval must at least show the scatter between the runs.  If the
    median of a run is outside the interval of the processes, the runs differ, and n runs bound
    their median only with confidence ``1 - 2^(1 - n)``.
    """
    low, high = min(interval.low, *medians), max(interval.high, *medians)
    if (low, high) == (interval.low, interval.high):
        return interval
    level = min(interval.confidence, 1 - 2.0 ** (1 - len(medians)))
    return replace(interval, low=low, high=high, confidence=level)


def _median(leaf: Sampled) -> float:
    return statistics.median(process.median for process in leaf.processes)


def value(quantity: Quantity, value_of: ValueOfSeries) -> float:
    """Compute ``quantity``; ``value_of`` returns the value of a series.

    Raises ``ArithmeticError`` if an operation has no result.
    """
    if isinstance(quantity, Sampled):
        return value_of(quantity)
    if isinstance(quantity, Derived):
        if quantity.constants:
            return quantity.constants[0]
        result = quantity.operation.value([value(part, value_of) for part in quantity.operands])
        if not quantity.sampled:
            quantity.constants.append(result)
        return result
    if isinstance(quantity, Inferred):
        return quantity.interval(CONFIDENCE).value
    if isinstance(quantity, Exact):
        # Whole numbers and their quotients are computed without rounding.
        return Fraction(quantity.value)  # type: ignore[return-value]
    return _fixed(quantity)[0]


def _bounds(quantity: Quantity, intervals: dict[Quantity, Estimate]) -> Bounds:
    """Combine the ``intervals`` of the parts to the bounds of ``quantity``."""
    interval = intervals.get(quantity)
    if interval is not None:
        return interval.value, interval.low, interval.high
    if isinstance(quantity, Derived):
        parts = [_bounds(part, intervals) for part in quantity.operands]
        return quantity.operation.bounds(parts)
    return _fixed(quantity)


def _fixed(quantity: Quantity) -> Bounds:
    """Return the value of an unmeasured leaf, with its bounds."""
    if isinstance(quantity, ReportedNumber):
        return quantity.bounds
    assert isinstance(quantity, Exact), quantity
    number = float(quantity.value)
    return number, number, number
