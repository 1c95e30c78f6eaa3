"""Values of expressions with intervals, at the confidence level that the data allow.

A run measures a series (``MeasuredSeries``) with several processes, so that an interval includes
the scatter between processes.  An ``EstimatedNumber`` has its own interval.

If the same processes measured all series of a part of an expression, the part is computed once per
process.  Drift and memory placement then cancel, and one interval follows from the results.
Processes that lack one of the series are left out.  With ``ENOUGH_RUNS`` runs or more, the median
of each run counts as one sample of the interval.  With fewer runs the value of each process counts,
and the interval is widened to contain the median of every run.

Parts without common processes are combined by the ends of their intervals , whose
levels are raised so that all intervals hold together (Bonferroni's correction).
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, Estimate, bonferroni, median_interval
from report.core.text.format import Number
from report.instruments.gates import is_bimodal
from report.quantity.expression import (
    Bounds,
    Derived,
    EstimatedNumber,
    ExactNumber,
    Leaf,
    MeasuredSeries,
    Quantity,
    ReportedNumber,
    exact_number,
    missing_number,
)
from report.quantity.intervals import interval_of_calls
from report.quantity.units import ONE

Subject = TypeVar("Subject")
ValueOfSeries: TypeAlias = Callable[[MeasuredSeries], float]

#: Identity of a process: names of run and process.
ProcessKey: TypeAlias = tuple[str, str]

#: Smallest number of runs whose medians can bound a 95 % interval (``median_interval``).
ENOUGH_RUNS: Final = 6


def estimate(quantity: Quantity, confidence: float = CONFIDENCE) -> Estimate | Missing:
    """Compute the value of ``quantity`` with its interval.

    The result has the requested ``confidence``, or a lower level if the data allow no more.
    Without measurements the level is 1, and the interval has width 0 or the width of the printed
    digits.  The result is missing if a leaf is missing, or if an operation has no result, such as a
    quotient whose divisor may be 0.
    """
    cache = quantity.estimates
    if confidence not in cache:
        cache[confidence] = _estimate(quantity, confidence)
    return cache[confidence]


def _estimate(quantity: Quantity, confidence: float) -> Estimate | Missing:
    """Compute the result of ``estimate``, without the cache."""
    if quantity.missing:
        return quantity.missing
    parts = tuple(dict.fromkeys(_parts_with_intervals(quantity)))
    try:
        intervals = _intervals(parts, confidence)
        value, low, high = _bounds(quantity, intervals)
    except ArithmeticError as error:
        return Missing(str(error))
    level = 1.0
    if parts:
        error_probability = sum(1 - interval.confidence for interval in intervals.values())
        # Rounding removes errors of the sum, so that 0.95 stays 0.95.
        level = min(confidence, max(0.0, round(1 - error_probability, 12)))
    bimodal = any(interval.bimodal for interval in intervals.values())
    return Estimate(value, low, high, sample_count(quantity), level, bimodal)


def printed_number(quantity: Quantity) -> Number | Estimate | Missing:
    """Return the value for printing: a plain number if the value is exact, else an estimate.

    Whole numbers without an interval are returned as ``int``, however large.
    """
    if quantity.missing:
        return quantity.missing
    if all(isinstance(leaf, ExactNumber) for leaf in quantity.leaves):
        try:
            exact_value = compute_value(quantity, _median)
        except ArithmeticError as error:
            return Missing(str(error))
        return int(exact_value) if exact_value == int(exact_value) else float(exact_value)
    result = estimate(quantity)
    if isinstance(result, Estimate) and result.low == result.high == round(result.value):
        return int(result.value)
    return result


def point_estimate(quantity: Quantity) -> float | Missing:
    """Return the value of a quantity's estimate, without the interval."""
    result = estimate(quantity)
    return result if isinstance(result, Missing) else result.value


def unpaired_ratio(ratio_of: Callable[[Subject], Quantity], subject: Subject) -> Quantity:
    """Compute the ratio of ``subject`` to two decimals, from medians over all processes.

    ``estimate``, in contrast, computes the ratio in each process before the median.
    """
    ratio = ratio_of(subject)
    if ratio.missing:
        return ratio
    file, *further = ratio.sources or ("",)
    rounded = round(float(compute_value(ratio, _median)), 2)
    return exact_number(f"{ratio.formula}, unpaired", "1", rounded, file, tuple(further))


def to_digits(quantity: Quantity, digits: int) -> Quantity:
    """Round to ``digits`` significant digits."""
    name, unit = f"{quantity.formula}, to {digits} digits", str(quantity.unit)
    number = point_estimate(quantity)
    if isinstance(number, Missing):
        return missing_number(name, unit, number.reason)
    rounded = float(f"{number:.{digits}g}")
    file, *further = quantity.sources or ("",)
    return exact_number(name, unit, rounded, file, tuple(further))


def _intervals(parts: Sequence[Quantity], confidence: float) -> dict[Quantity, Estimate]:
    """Compute an interval for each part, so that all hold together with ``confidence``.

    All parts get equal shares of the error probability, ``1 - confidence``.  Parts with too few
    samples exceed their share (with six processes the error is at least 3 %).  The other parts then
    share the remaining error.
    """
    if not parts:
        return {}
    level = bonferroni(confidence, len(parts))
    intervals = {part: _interval_of_part(part, level) for part in parts}
    reaching_level = [part for part in parts if intervals[part].confidence >= level]
    below_level = [part for part in parts if part not in reaching_level]
    remaining_error = (1 - confidence) - sum(1 - intervals[part].confidence for part in below_level)
    if len(reaching_level) in (0, len(parts)) or remaining_error <= 0:
        return intervals
    level = bonferroni(1 - remaining_error, len(reaching_level))
    for part in reaching_level:
        intervals[part] = _interval_of_part(part, level)
    return intervals


def sample_count(quantity: Quantity) -> int:
    """Return the smallest number of samples of a measured leaf, or 0 if no leaf was measured."""
    counts = []
    for leaf in quantity.leaves:
        if isinstance(leaf, EstimatedNumber):
            counts.append(leaf.interval(CONFIDENCE).n)
        elif isinstance(leaf, MeasuredSeries):
            counts.append(sum(len(process.samples) for process in leaf.processes))
    return min(counts, default=0)


def _parts_with_intervals(quantity: Quantity) -> Iterator[Quantity]:
    """Yield the largest parts of an expression that can have one interval each.

    A part is a measured leaf, or an expression whose series were all measured by the same two or
    more processes.  An operation of such an expression must not need bounds, as a range over
    several quantities does.
    """
    measured = _measured_leaves(quantity)
    if not measured:
        return
    has_values_by_process = len(_common_processes(measured)) > 1 and not quantity.needs_bounds
    if has_values_by_process or not quantity.parts:
        yield quantity
        return
    for part in quantity.parts:
        yield from _parts_with_intervals(part)


def _measured_leaves(quantity: Quantity) -> list[Leaf]:
    """Return the leaves of an expression that have an interval."""
    return [leaf for leaf in quantity.leaves if isinstance(leaf, MeasuredSeries | EstimatedNumber)]


def compared_in_pairs(quantity: Quantity) -> bool:
    """Tell whether a quantity is a ratio of series that the same processes measured.

    The quantity must be dimensionless, and each part with an interval must have two or more series
    and no ``EstimatedNumber``.
    """
    if quantity.unit != ONE:
        return False
    for part in _parts_with_intervals(quantity):
        measured = _measured_leaves(part)
        if len(measured) < 2 or not all(isinstance(leaf, MeasuredSeries) for leaf in measured):
            return False
    return True


def value_in_only_common_process(quantity: Quantity) -> float | None:
    """Compute a quantity from the medians of the only process that measured all its series.

    Returns None if no process measured all series, or several did.
    """
    series = [leaf for leaf in quantity.leaves if isinstance(leaf, MeasuredSeries)]
    processes = _common_processes(series) if series else ()
    if len(processes) != 1:
        return None
    return _value_in_process(quantity, processes[0])


def _common_processes(leaves: Sequence[Leaf]) -> tuple[ProcessKey, ...]:
    """Return the processes that measured all ``leaves``; none if a leaf is no measured series."""
    processes = [leaf.process_keys if isinstance(leaf, MeasuredSeries) else () for leaf in leaves]
    common = processes[0]
    for keys in processes[1:]:
        if keys != common:
            present = frozenset(keys)
            common = tuple(key for key in common if key in present)
    return common


def _interval_of_part(part: Quantity, confidence: float) -> Estimate:
    """Compute the interval of a part from its values in processes, or from the medians of runs.

    The medians of runs are used if there are ``ENOUGH_RUNS`` or more.  If a single process measured
    the part, the interval comes from the calls of this process.
    """
    if isinstance(part, EstimatedNumber):
        return part.interval(confidence)
    leaves = [leaf for leaf in part.leaves if isinstance(leaf, MeasuredSeries)]
    if leaves[0].from_one_process:
        process = leaves[0].processes[0]
        return interval_of_calls(process.samples, confidence, process.inflation)
    values: list[float] = []
    values_by_run: dict[str, list[float]] = {}
    for process_key in _common_processes(leaves):
        run, _ = process_key
        value_in_process = _value_in_process(part, process_key)
        values.append(value_in_process)
        values_by_run.setdefault(run, []).append(value_in_process)
    if is_bimodal(values) and any(is_bimodal(leaf.medians.values()) for leaf in leaves):
        n, low, high = len(values), min(values), max(values)
        # The median is between two groups of processes and depends on their sizes.  For a ratio the
        # range of all processes is valid: if every process exceeds a bound, so do both groups.
        level = min(confidence, 1 - 2.0 ** (1 - n)) if compared_in_pairs(part) else 0.0
        return Estimate(statistics.median(values), low, high, n, level, bimodal=True)
    medians = [statistics.median(values_of_run) for values_of_run in values_by_run.values()]
    if len(medians) >= ENOUGH_RUNS:
        return median_interval(medians, confidence)
    return _widen_to_contain(medians, median_interval(values, confidence))


def _value_in_process(quantity: Quantity, process: ProcessKey) -> float:
    """Compute a quantity from the medians of its series in one process."""
    return compute_value(quantity, lambda series: series.medians[process])


def _widen_to_contain(medians: Sequence[float], interval: Estimate) -> Estimate:
    """Widen an ``interval`` from processes to contain the ``medians`` of all runs.

    Processes of one run are fast or slow for common reasons, so that many processes say little
    about the next run.  The interval must at least show the scatter between the runs.  The
    confidence of a widened interval is at most ``1 - 2^(1 - n)``, the confidence with which the
    range of n runs contains their median.
    """
    low, high = min(interval.low, *medians), max(interval.high, *medians)
    if (low, high) == (interval.low, interval.high):
        return interval
    level = min(interval.confidence, 1 - 2.0 ** (1 - len(medians)))
    return replace(interval, low=low, high=high, confidence=level)


def _median(series: MeasuredSeries) -> float:
    """Return the median of the medians of all processes."""
    return statistics.median(process.median for process in series.processes)


def compute_value(quantity: Quantity, value_of: ValueOfSeries) -> float:
    """Compute ``quantity`` from the value that ``value_of`` returns for each measured series.

    Raises ``ArithmeticError`` if an operation has no result.
    """
    if isinstance(quantity, MeasuredSeries):
        return value_of(quantity)
    if isinstance(quantity, Derived):
        if quantity.cached_value:
            return quantity.cached_value[0]
        result = quantity.operation.value(
            [compute_value(part, value_of) for part in quantity.operands]
        )
        if not quantity.is_measured:
            quantity.cached_value.append(result)
        return result
    if isinstance(quantity, EstimatedNumber):
        return quantity.interval(CONFIDENCE).value
    if isinstance(quantity, ExactNumber):
        # Whole numbers and their quotients are computed without rounding.
        return Fraction(quantity.value)  # type: ignore[return-value]
    constant, _, _ = _unmeasured_bounds(quantity)
    return constant


def _bounds(quantity: Quantity, intervals: dict[Quantity, Estimate]) -> Bounds:
    """Return value, low and high end of ``quantity``, from the ``intervals`` of its parts."""
    interval = intervals.get(quantity)
    if interval is not None:
        return interval.value, interval.low, interval.high
    if isinstance(quantity, Derived):
        parts = [_bounds(part, intervals) for part in quantity.operands]
        return quantity.operation.bounds(parts)
    return _unmeasured_bounds(quantity)


def _unmeasured_bounds(quantity: Quantity) -> Bounds:
    """Return the value of an unmeasured leaf, with its bounds."""
    if isinstance(quantity, ReportedNumber):
        return quantity.bounds
    assert isinstance(quantity, ExactNumber), quantity
    number = float(quantity.value)
    return number, number, number
