"""Expressions over measured series, counts and reported values.

A quantity is built with ``+ - * /`` and the functions of ``report.quantity.operations``.  Building
a quantity checks units, so that a study that adds bytes to FLOPs fails when the quantity is built.
Formula, sources and missing parts follow from the leaves; estimates are cached.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

from report.core.errors import StudyError
from report.core.missing import Missing
from report.core.statistics.estimates import Estimate
from report.core.text.format import Number
from report.quantity.intervals import Process
from report.quantity.ranges import Range
from report.quantity.units import ONE, Unit, UnitError, same_unit, unit

#: The package ``report``, without the studies in it; error messages name no line of this library.
_LIBRARY: Final = str(Path(__file__).parents[1]) + "/"
_STUDIES: Final = _LIBRARY + "studies/"

#: A value with its bounds: (value, low, high).
Bounds: TypeAlias = tuple[float, float, float]


class Precedence(IntEnum):
    """Precedence of a formula's outermost operation, lowest first.

    ``NAME`` is the precedence of names, numbers and function calls, which need no brackets.
    """

    LIST, SUM, PRODUCT, NAME = range(4)


@dataclass(frozen=True, eq=False)
class Quantity:
    """An expression with a unit, whose value follows from the data or is missing with a reason.

    Leaves are compared by their fields, other quantities by identity.
    """

    unit: Unit

    @property
    def formula(self) -> str:
        """The computation, written with the names of the leaves."""
        raise NotImplementedError

    @property
    def symbol(self) -> str:
        """The quantity's text in other formulas: the name if there is one, else the formula."""
        return self.formula

    @property
    def parts(self) -> tuple[Quantity, ...]:
        """The operands; empty for a leaf."""
        return ()

    @property
    def precedence(self) -> Precedence:
        """The precedence of the symbol, which determines whether the symbol needs brackets."""
        return Precedence.NAME

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The distinct leaves of the expression, in the order of the formula."""
        if isinstance(self, Leaf):
            return (self,)
        distinct: dict[Leaf, None] = {}
        for part in self.parts:
            distinct |= dict.fromkeys(part.leaves)
        return tuple(distinct)

    @property
    def sources(self) -> tuple[str, ...]:
        """The files of records and of reported values; empty for pure theory."""
        distinct: dict[str, None] = {}
        for leaf in self.leaves:
            distinct |= dict.fromkeys(leaf.files)
        return tuple(distinct)

    @cached_property
    def missing(self) -> Missing | None:
        """The reason of the first missing leaf; None if no leaf is missing."""
        for leaf in self.leaves:
            if isinstance(leaf, MissingNumber):
                return leaf.reason
        return None

    @cached_property
    def needs_bounds(self) -> bool:
        """True if an operation in the expression has ``needs_bounds``."""
        return any(part.needs_bounds for part in self.parts)

    @cached_property
    def estimates(self) -> dict[float, Estimate | Missing]:
        """Cache of ``evaluation.estimate``: requested confidence → estimate."""
        return {}

    def __gt__(self, bound: Number) -> Statement:
        """State that the quantity is above ``bound``."""
        return Statement(self, Range(low=bound))

    def __lt__(self, bound: Number) -> Statement:
        """State that the quantity is below ``bound``."""
        return Statement(self, Range(high=bound))

    def near(self, number: Number, within: float) -> Statement:
        """State that the quantity differs from ``number`` by at most ``within`` (same unit).

        Raises ``StudyError`` unless ``within`` is positive, since no measurement supports equality.
        """
        if not within > 0:
            raise StudyError(f"Equality with {number} needs a positive margin, found {within}.")
        return Statement(self, Range(number - within, number + within, closed=True))

    def exactly(self, number: Number) -> Statement:
        """State that the quantity equals ``number`` exactly, as for counts."""
        return Statement(self, Range(number, number, closed=True))

    def __add__(self, other: Quantity | Number) -> Quantity:
        return combine(ADD, self, as_quantity(other))

    def __sub__(self, other: Quantity | Number) -> Quantity:
        return combine(SUBTRACT, self, as_quantity(other))

    def __mul__(self, other: Quantity | Number) -> Quantity:
        return combine(MULTIPLY, self, as_quantity(other))

    def __truediv__(self, other: Quantity | Number) -> Quantity:
        return combine(DIVIDE, self, as_quantity(other))

    def __radd__(self, other: Number) -> Quantity:
        return as_quantity(other) + self

    def __rsub__(self, other: Number) -> Quantity:
        return as_quantity(other) - self

    def __rmul__(self, other: Number) -> Quantity:
        return as_quantity(other) * self

    def __rtruediv__(self, other: Number) -> Quantity:
        return as_quantity(other) / self


@dataclass(frozen=True)
class Statement:
    """Statement that ``quantity`` is in ``range``."""

    quantity: Quantity
    range: Range

    @property
    def measured_series(self) -> tuple[MeasuredSeries, ...]:
        """The measured series in the quantity."""
        return tuple(leaf for leaf in self.quantity.leaves if isinstance(leaf, MeasuredSeries))

    @property
    def from_one_process(self) -> bool:
        """True if a single process measured one of the series (see ``quantity.intervals``)."""
        return any(leaf.from_one_process for leaf in self.measured_series)


@dataclass(frozen=True)
class Leaf(Quantity):
    """An input of expressions: ``name`` in formulas, and ``source``, the file with the data.

    ``other_files``: more files with the data, such as those of pooled runs; ignored by ``==``.
    """

    name: str
    source: str = ""
    other_files: tuple[str, ...] = field(default=(), compare=False, kw_only=True)

    @property
    def files(self) -> tuple[str, ...]:
        """All files with the data; empty for pure theory."""
        return tuple(file for file in (self.source, *self.other_files) if file)

    @property
    def formula(self) -> str:
        return self.name


@dataclass(frozen=True)
class ExactNumber(Leaf):
    """A number without uncertainty, such as a count or a shape."""

    value: Number | Fraction = 0


@dataclass(frozen=True)
class ReportedNumber(Leaf):
    """A published number with ``decimals`` decimals, known to half a unit of the last digit."""

    value: Number = 0
    decimals: int = 0

    @property
    def bounds(self) -> Bounds:
        """The printed number, and the bounds of all numbers that round to it."""
        half_unit = 0.5 * 10.0**-self.decimals
        return self.value, self.value - half_unit, self.value + half_unit


@dataclass(frozen=True)
class MeasuredSeries(Leaf):
    """A series measured in processes; its value is the median.  ``==`` ignores the samples."""

    processes: tuple[Process, ...] = field(default=(), compare=False)

    @property
    def disturbed(self) -> bool:
        """True if other programs ran while a process measured."""
        return any(process.disturbed for process in self.processes)

    @property
    def from_one_process(self) -> bool:
        """True if a single process measured the series (see ``quantity.intervals``)."""
        return len(self.processes) == 1

    @cached_property
    def process_keys(self) -> tuple[tuple[str, str], ...]:
        """(run, name) of each process."""
        return tuple((process.run, process.name) for process in self.processes)

    @cached_property
    def medians(self) -> dict[tuple[str, str], float]:
        """(run, name) of each process → median; the first counts if a name appears twice."""
        medians: dict[tuple[str, str], float] = {}
        for key, process in zip(self.process_keys, self.processes, strict=True):
            medians.setdefault(key, process.median)
        return medians


@dataclass(frozen=True)
class EstimatedNumber(Leaf):
    """A number whose interval does not come from processes, such as a mean over test images.

    ``interval`` computes the estimate for a confidence level.
    """

    interval: Callable[[float], Estimate] = field(compare=False, kw_only=True)


@dataclass(frozen=True)
class MissingNumber(Leaf):
    """A missing quantity with its reason."""

    reason: Missing = field(default_factory=lambda: Missing("not measured"))


def measured_series(
    name: str,
    unit_name: str,
    processes: Sequence[Process],
    source: str,
    other_files: tuple[str, ...] = (),
) -> Leaf:
    """Return a measured series, or a missing number if no process has a sample."""
    filled = tuple(process for process in processes if process.samples)
    if not filled:
        return MissingNumber(unit(unit_name), name, source, Missing(f"{name} was not recorded"))
    return MeasuredSeries(unit(unit_name), name, source, filled, other_files=other_files)


def exact_number(
    name: str,
    unit_name: str,
    value: Number | Fraction,
    source: str = "",
    other_files: tuple[str, ...] = (),
) -> ExactNumber:
    """Return a number without uncertainty; ``source`` is the file with the number."""
    return ExactNumber(unit(unit_name), name, source, value, other_files=other_files)


def recorded_number(name: str, unit_name: str, value: Number | Missing, source: str = "") -> Leaf:
    """Return a record's number as an exact number, or as a missing number with the reason."""
    if isinstance(value, Missing):
        return missing_number(name, unit_name, value.reason)
    return exact_number(name, unit_name, value, source)


def reported_number(
    name: str, unit_name: str, value: Number, decimals: int, source: str
) -> ReportedNumber:
    """Return a published number that is printed with ``decimals`` decimals."""
    return ReportedNumber(unit(unit_name), name, source, value, decimals)


def missing_number(name: str, unit_name: str, reason: str) -> MissingNumber:
    """Return a missing number with its reason."""
    return MissingNumber(unit(unit_name), name, "", Missing(reason))


def as_quantity(operand: Quantity | Number) -> Quantity:
    """Convert a plain number to an exact quantity of unit 1."""
    if isinstance(operand, Quantity):
        return operand
    return ExactNumber(ONE, f"{operand:g}", "", operand)


@dataclass(frozen=True)
class Operation:
    """A function that combines several quantities into one.

    ``unit`` computes the unit of the result, or raises ``UnitError``.  ``value`` computes the
    result from numbers.  ``bounds`` computes the result from intervals; it is valid if all the
    intervals are.  Both raise ``ArithmeticError`` if there is no result.  ``text`` writes the
    formula, and ``precedence`` determines the formula's brackets.

    ``needs_bounds``: the interval comes from ``bounds``, never from the values in single processes.
    For example, the value of a range over several quantities is the value of the first quantity, so
    that the range's values in single processes would not show how far the quantities differ.
    """

    name: str
    unit: Callable[[Sequence[Unit]], Unit]
    value: Callable[[Sequence[float]], float]
    bounds: Callable[[Sequence[Bounds]], Bounds]
    text: Callable[[Sequence[str]], str]
    precedence: Precedence = Precedence.NAME
    needs_bounds: bool = False


@dataclass(frozen=True, eq=False)
class Derived(Quantity):
    """The result of an operation on ``operands``; ``name`` represents it in other formulas.

    Results are compared by identity, since comparing entire expressions would take long.
    """

    operation: Operation
    operands: tuple[Quantity, ...]
    name: str = ""

    @property
    def parts(self) -> tuple[Quantity, ...]:
        return self.operands

    @cached_property
    def is_measured(self) -> bool:
        """True if the value depends on measured series."""
        return any(isinstance(leaf, MeasuredSeries) for leaf in self.leaves)

    @cached_property
    def needs_bounds(self) -> bool:
        return self.operation.needs_bounds or super().needs_bounds

    @cached_property
    def cached_value(self) -> list[float]:
        """A list for the value of an expression without measured series; empty until evaluation.

        The value is in a list because the attributes of a frozen instance cannot be set.
        """
        return []

    @property
    def precedence(self) -> Precedence:
        return Precedence.NAME if self.name else self.operation.precedence

    @property
    def symbol(self) -> str:
        return self.name or self.formula

    @cached_property
    def formula(self) -> str:
        return self.write_formula(lambda part: part.symbol)

    def write_formula(self, show: Callable[[Quantity], str]) -> str:
        """Write the formula with the text ``show(operand)`` of each operand, and with brackets."""
        texts: list[str] = []
        for index, operand in enumerate(self.operands):
            text = show(operand)
            texts.append(f"({text})" if _needs_brackets(self, operand, index) else text)
        return self.operation.text(texts)


def combine(operation: Operation, *operands: Quantity) -> Derived:
    """Apply ``operation``; if units do not fit, raise ``UnitError`` with the line of the study."""
    try:
        result = operation.unit([operand.unit for operand in operands])
    except UnitError as error:
        names = " and ".join(f"{part.symbol} ({part.unit})" for part in operands[:2])
        raise UnitError(f"{_caller()}: {operation.name} of {names}: {error}") from None
    return Derived(result, operation, operands)


def named(name: str, quantity: Quantity) -> Quantity:
    """Set the ``name`` of ``quantity`` in other formulas; leaves keep their own names."""
    return replace(quantity, name=name) if isinstance(quantity, Derived) else quantity


def product_bounds(intervals: Sequence[Bounds]) -> Bounds:
    """Compute the bounds of a product of two quantities."""
    (a, a_low, a_high), (b, b_low, b_high) = intervals
    corners = (a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high)
    return a * b, min(corners), max(corners)


def quotient_bounds(intervals: Sequence[Bounds]) -> Bounds:
    """Compute the bounds of a quotient; raises ``ZeroDivisionError`` if the divisor may be 0."""
    dividend, (value, low, high) = intervals
    if low <= 0 <= high:
        raise ZeroDivisionError("the interval of the divisor holds 0")
    return product_bounds([dividend, (1 / value, 1 / high, 1 / low)])


def _sum_bounds(intervals: Sequence[Bounds]) -> Bounds:
    """Compute the bounds of a sum of two quantities."""
    (a, a_low, a_high), (b, b_low, b_high) = intervals
    return a + b, a_low + b_low, a_high + b_high


def _difference_bounds(intervals: Sequence[Bounds]) -> Bounds:
    """Compute the bounds of a difference of two quantities."""
    (a, a_low, a_high), (b, b_low, b_high) = intervals
    return a - b, a_low - b_high, a_high - b_low


ADD: Final = Operation(
    "the sum",
    unit=same_unit,
    value=lambda numbers: numbers[0] + numbers[1],
    bounds=_sum_bounds,
    text=" + ".join,
    precedence=Precedence.SUM,
)
SUBTRACT: Final = Operation(
    "the difference",
    unit=same_unit,
    value=lambda numbers: numbers[0] - numbers[1],
    bounds=_difference_bounds,
    text=" − ".join,
    precedence=Precedence.SUM,
)
MULTIPLY: Final = Operation(
    "the product",
    unit=lambda units: units[0] * units[1],
    value=lambda numbers: numbers[0] * numbers[1],
    bounds=product_bounds,
    text=" · ".join,
    precedence=Precedence.PRODUCT,
)
DIVIDE: Final = Operation(
    "the quotient",
    unit=lambda units: units[0] / units[1],
    value=lambda numbers: numbers[0] / numbers[1],
    bounds=quotient_bounds,
    text=" / ".join,
    precedence=Precedence.PRODUCT,
)


def _caller() -> str:
    """Return «file:line» of the innermost caller outside this library."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_library_code(frame.f_code.co_filename):
        frame = frame.f_back
    file = "/".join(Path(frame.f_code.co_filename).parts[-3:])
    return f"{file}:{frame.f_lineno}"


def _is_library_code(file: str) -> bool:
    """Tell whether ``file`` is code of this library, not of a study."""
    return file.startswith(_LIBRARY) and not file.startswith(_STUDIES)


def _needs_brackets(whole: Derived, operand: Quantity, index: int) -> bool:
    """Tell whether operand ``index`` of a formula needs brackets, such as a sum after a minus."""
    precedence = whole.operation.precedence
    if precedence == Precedence.NAME:  # a function call, which has its own brackets
        return False
    if whole.operation in (SUBTRACT, DIVIDE) and index > 0:
        return operand.precedence <= precedence
    return operand.precedence < precedence
