"""From an expression to a number with its interval, at the level that its data carry.

Where a part of an expression rests on series that were measured in the same processes, it is
computed once for each process: drift and placement cancel, and one interval of those results needs
no splitting.  A process that one of the series lacks is left out of all.  Six runs or more are the
units themselves; of fewer their processes are, in an interval that holds the median of every run.

Parts that were measured apart are combined by the extremes of their intervals, each at the share
of the level that makes all hold together (Bonferroni).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, TypeAlias

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, Estimate, bonferroni, median_interval
from report.instruments.gates import is_bimodal
from report.quantity.expression import (
    Derived,
    Exact,
    Inferred,
    Interval,
    Leaf,
    Number,
    Quantity,
    Reported,
    Sampled,
    absent,
    exact,
)
from report.quantity.intervals import calls_interval
from report.quantity.units import ONE

Look: TypeAlias = Callable[[Sampled], float]

#: A process of a run, by the names of both.
Key: TypeAlias = tuple[str, str]

#: From so many runs on the runs are the units, else their processes.
ENOUGH_RUNS: Final = 6


def estimate(quantity: Quantity, confidence: float = CONFIDENCE) -> Estimate | Missing:
    """The value of ``quantity`` with its interval.

    ``confidence`` of the result is the level that was asked for, or the lower one that the data
    reach; a quantity without measurement has an interval of width 0, or that of its printed
    digits, and level 1.  Missing where a leaf is, or where there is no result, such as a quotient
    by an interval that holds 0.
    """
    known = quantity.estimates
    if confidence not in known:
        known[confidence] = _estimate(quantity, confidence)
    return known[confidence]


def _estimate(quantity: Quantity, confidence: float) -> Estimate | Missing:
    if quantity.missing:
        return quantity.missing
    units = tuple(dict.fromkeys(_units(quantity)))
    try:
        intervals = _intervals(units, confidence)
        value, low, high = _bounds(quantity, intervals)
    except ArithmeticError as error:
        return Missing(str(error))
    lost = sum(1 - found.confidence for found in intervals.values())
    reached = max(0.0, round(1 - lost, 12)) if units else 1.0
    level = min(reached, confidence if units else 1.0)
    bimodal = any(found.bimodal for found in intervals.values())
    return Estimate(value, low, high, samples(quantity), level, bimodal)


def number(quantity: Quantity, confidence: float = CONFIDENCE) -> Number | Estimate | Missing:
    """The value as a paper prints it: exactly where nothing in it was measured or rounded.

    A whole number stays one, however large.
    """
    if quantity.missing:
        return quantity.missing
    if not all(isinstance(leaf, Exact) for leaf in quantity.leaves):
        result = estimate(quantity, confidence)
        if isinstance(result, Missing) or not result.low == result.high == round(result.value):
            return result
        return int(result.value)
    try:
        found = value(quantity, _median)
    except ArithmeticError as error:
        return Missing(str(error))
    return int(found) if found == int(found) else float(found)


def point(quantity: Quantity) -> float | Missing:
    """The value of a quantity alone, for what is drawn or only described."""
    found = estimate(quantity)
    return found if isinstance(found, Missing) else found.value


def to_digits(quantity: Quantity, digits: int) -> Quantity:
    """A value to so many digits: what depends on single samples or printed digits bears no more."""
    found, name, unit = point(quantity), f"{quantity.formula}, to {digits} digits", quantity.unit
    if isinstance(found, Missing):
        return absent(name, str(unit), found.reason)
    file, *further = quantity.sources or ("",)
    return exact(name, str(unit), float(f"{found:.{digits}g}"), file, tuple(further))


def _intervals(units: Sequence[Quantity], confidence: float) -> dict[Quantity, Estimate]:
    """An interval for each unit, so that all hold together with ``confidence`` where they can.

    Each is given the same share of what may be lost.  Where one cannot do with its share, as six
    processes cannot with less than 3 %, the others do with what it leaves them.
    """
    if not units:
        return {}
    share = bonferroni(confidence, len(units))
    found = {unit: _of_unit(unit, share) for unit in units}
    rest = [unit for unit in units if found[unit].confidence >= share]
    left = (1 - confidence) - sum(1 - found[u].confidence for u in units if u not in rest)
    if len(rest) in (0, len(units)) or left <= 0:
        return found
    return {**found, **{unit: _of_unit(unit, bonferroni(1 - left, len(rest))) for unit in rest}}


def samples(quantity: Quantity) -> int:
    """The number of samples behind the part that has fewest; 0 where nothing was measured."""
    counts = (
        leaf.interval(CONFIDENCE).n
        if isinstance(leaf, Inferred)
        else sum(len(process.samples) for process in leaf.processes)
        for leaf in quantity.leaves
        if isinstance(leaf, Sampled | Inferred)
    )
    return min(counts, default=0)


def _units(quantity: Quantity) -> Iterator[Quantity]:
    """The largest parts whose series share processes, at least two; a series is one by itself."""
    measured = [leaf for leaf in quantity.leaves if isinstance(leaf, Sampled | Inferred)]
    if not measured:
        return
    together = len(_shared(measured)) > 1 and not quantity.widened
    if together or not quantity.parts:
        yield quantity
        return
    for part in quantity.parts:
        yield from _units(part)


def compared_in_pairs(quantity: Quantity) -> bool:
    """Return whether a quantity is a pure number of ratios that processes measured in turn."""
    if quantity.unit != ONE:
        return False
    for unit in _units(quantity):
        measured = [leaf for leaf in unit.leaves if isinstance(leaf, Sampled | Inferred)]
        if len(measured) < 2 or not all(isinstance(leaf, Sampled) for leaf in measured):
            return False
    return True


def _shared(leaves: Sequence[Leaf]) -> tuple[Key, ...]:
    """The processes that all ``leaves`` have; a number with a rule of its own has none."""
    first, *others = (leaf.keys if isinstance(leaf, Sampled) else () for leaf in leaves)
    differing = [keys for keys in others if keys != first]
    return tuple(key for key in first if all(key in keys for keys in differing))


def _of_unit(unit: Quantity, confidence: float) -> Estimate:
    if isinstance(unit, Inferred):
        return unit.interval(confidence)
    leaves = [leaf for leaf in unit.leaves if isinstance(leaf, Sampled)]
    if leaves[0].alone:
        process = leaves[0].processes[0]
        return calls_interval(process.samples, confidence, process.inflation)
    results = [
        (key[0], value(unit, lambda leaf, at=key: leaf.medians[at]))  # type: ignore[misc]
        for key in _shared(leaves)
    ]
    each = [result for _, result in results]
    if is_bimodal(each) and any(is_bimodal(leaf.medians.values()) for leaf in leaves):
        low, high = min(each), max(each)
        # A ratio beyond a bound in every pair of processes is so in both groups.
        level = min(confidence, 1 - 2.0 ** (1 - len(each))) if compared_in_pairs(unit) else 0.0
        return Estimate(statistics.median(each), low, high, len(each), level, bimodal=True)
    runs = dict.fromkeys(run for run, _ in results)
    by_run = [statistics.median(v for r, v in results if r == run) for run in runs]
    if len(runs) >= ENOUGH_RUNS:
        return median_interval(by_run, confidence)
    return _holding(by_run, median_interval(each, confidence))


def _holding(medians: Sequence[float], found: Estimate) -> Estimate:
    """The interval of few runs, wide enough for the median of each.

    Processes of one run share what makes it fast or slow, so that their number says little about
    the next run; how far apart the runs are that there are is the least that must show.  Where a
    run lies outside what the processes say, the runs differ, and so few of them bound their median
    only at ``1 - 2^(1 - n)``.
    """
    low, high = min(found.low, *medians), max(found.high, *medians)
    if (low, high) == (found.low, found.high):
        return found
    level = min(found.confidence, 1 - 2.0 ** (1 - len(medians)))
    return replace(found, low=low, high=high, confidence=level)


def _median(leaf: Sampled) -> float:
    return statistics.median(process.median for process in leaf.processes)


def value(quantity: Quantity, look: Look) -> float:
    """The value of ``quantity`` where ``look`` gives the values of its series.

    Raises ``ArithmeticError`` where an operation has no result.
    """
    if isinstance(quantity, Sampled):
        return look(quantity)
    if isinstance(quantity, Derived):
        if quantity.constants:
            return quantity.constants[0]
        found = quantity.operation.value([value(part, look) for part in quantity.operands])
        if not quantity.sampled:
            quantity.constants.append(found)
        return found
    if isinstance(quantity, Inferred):
        return quantity.interval(CONFIDENCE).value
    if isinstance(quantity, Exact):
        # Whole numbers and quotients of them are computed without rounding.
        return Fraction(quantity.value)  # type: ignore[return-value]
    return _fixed(quantity)[0]


def _bounds(quantity: Quantity, intervals: dict[Quantity, Estimate]) -> Interval:
    found = intervals.get(quantity)
    if found is not None:
        return found.value, found.low, found.high
    if isinstance(quantity, Derived):
        parts = [_bounds(part, intervals) for part in quantity.operands]
        return quantity.operation.bounds(parts)
    return _fixed(quantity)


def _fixed(quantity: Quantity) -> Interval:
    """The value of a leaf that was not measured, with its bounds."""
    if isinstance(quantity, Reported):
        return quantity.bounds
    assert isinstance(quantity, Exact), quantity
    number = float(quantity.value)
    return number, number, number
