"""Expressions over measured series, counts and reported values.

A quantity is built with ``+ - * /`` and the functions of ``report.quantity.operations``.  It checks
units when it is built, so that a study that adds bytes to FLOPs fails when it is loaded, and it
derives its formula, sources and missing parts from its leaves, and keeps what is computed of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

from report.core.missing import Missing
from report.core.statistics.estimates import Estimate
from report.core.text.format import Number
from report.quantity.intervals import Process
from report.quantity.ranges import Range, equals
from report.quantity.units import ONE, Unit, UnitError, same_unit, unit

#: The product's code and, in it, the studies, whose lines are named in messages.
_PRODUCT_CODE: Final = str(Path(__file__).parents[1]) + "/"
_STUDIES: Final = _PRODUCT_CODE + "studies/"

#: How tightly the parts of a formula bind: lists, sums, products, names.
LIST, SUM, PRODUCT, NAME = range(4)
#: A value between its bounds: (value, low, high).
Bounds: TypeAlias = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Quantity:
    """Something with a unit that can be computed from the data, or is missing with its reason.

    Leaves are equal by their fields; all else is equal to itself alone.
    """

    unit: Unit

    @property
    def formula(self) -> str:
        """How the quantity is computed, in the names of its leaves."""
        raise NotImplementedError

    @property
    def symbol(self) -> str:
        """The name in formulas of other quantities, else the formula."""
        return self.formula

    @property
    def parts(self) -> tuple[Quantity, ...]:
        """The operands; empty for a leaf."""
        return ()

    @property
    def binding(self) -> int:
        """Where its symbol needs brackets inside another formula."""
        return NAME

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The distinct leaves of the expression, in the order of the formula."""
        if isinstance(self, Leaf):
            return (self,)
        return tuple(dict.fromkeys(leaf for part in self.parts for leaf in part.leaves))

    @property
    def sources(self) -> tuple[str, ...]:
        """The files behind it, records and reported values; none for pure theory."""
        return tuple(dict.fromkeys(file for leaf in self.leaves for file in leaf.files))

    @cached_property
    def missing(self) -> Missing | None:
        """Why it cannot be computed, which is why its first missing leaf is."""
        return next((leaf.reason for leaf in self.leaves if isinstance(leaf, Absent)), None)

    @cached_property
    def widened(self) -> bool:
        """Whether a part has bounds that its values in single processes do not tell."""
        return any(part.widened for part in self.parts)

    @cached_property
    def estimates(self) -> dict[float, Estimate | Missing]:
        """Cached estimates by requested confidence."""
        return {}

    def __gt__(self, bound: Number) -> Statement:
        """State that the quantity is above ``bound``, for a claim to judge."""
        return Statement(self, Range(low=bound))

    def __lt__(self, bound: Number) -> Statement:
        """State that the quantity is below ``bound``."""
        return Statement(self, Range(high=bound))

    def near(self, number: Number, within: float) -> Statement:
        """State that the quantity equals ``number`` up to ``within``, which is above 0."""
        return Statement(self, equals(number, within))

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
    """That ``quantity`` lies in ``range``, on a device of the kind ``about`` if that is named.

    A kind that no device has, such as one with the base of a comparison, is comparable to none.
    """

    quantity: Quantity
    range: Range
    about: str = ""

    @property
    def sampled(self) -> tuple[Sampled, ...]:
        """The measured series that decide it."""
        return tuple(leaf for leaf in self.quantity.leaves if isinstance(leaf, Sampled))

    @property
    def alone(self) -> bool:
        """Tell whether one process alone measured any of its series.

        Calls of one process resemble each other more than those of several, so that their interval
        is about that process alone, however narrow it is.
        """
        return any(leaf.alone for leaf in self.sampled)


# -------------------------------------------------------------------------------------- leaves


@dataclass(frozen=True)
class Leaf(Quantity):
    """An input of expressions: ``name`` in formulas, ``source`` its file.

    ``further`` are the files of other runs whose samples are pooled with it.  Two leaves of one
    class, name, unit and source are the same quantity.
    """

    name: str
    source: str = ""
    further: tuple[str, ...] = field(default=(), compare=False, kw_only=True)

    @property
    def files(self) -> tuple[str, ...]:
        """All files that it is from; none for pure theory."""
        return tuple(filter(None, (self.source, *self.further)))

    @property
    def formula(self) -> str:
        return self.name


@dataclass(frozen=True)
class Exact(Leaf):
    """A count, a shape or anything else without uncertainty."""

    value: Number | Fraction = 0


@dataclass(frozen=True)
class ReportedNumber(Leaf):
    """A number that a source printed with ``decimals``: known to half a unit of its last digit."""

    value: Number = 0
    decimals: int = 0

    @property
    def bounds(self) -> Bounds:
        """The printed number and the numbers between which it was rounded to it."""
        half = 0.5 * 10.0**-self.decimals
        return self.value, self.value - half, self.value + half


@dataclass(frozen=True)
class Sampled(Leaf):
    """A measured series, process by process; its value is the median.

    ``device`` is what it was measured on, since a claim about a GPU is not decided by a CPU.
    """

    processes: tuple[Process, ...] = field(default=(), compare=False)
    device: str = ""

    @property
    def disturbed(self) -> bool:
        """Whether something else ran while any of it was measured."""
        return any(process.disturbed for process in self.processes)

    @property
    def alone(self) -> bool:
        """Whether one process made it, so that its interval speaks of that process alone."""
        return len(self.processes) == 1

    @cached_property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """The processes that the series comes from."""
        return tuple((process.run, process.name) for process in self.processes)

    @cached_property
    def medians(self) -> dict[tuple[str, str], float]:
        """The median of each process, by its key; of two of one key, that of the first."""
        return {(process.run, process.name): process.median for process in reversed(self.processes)}


@dataclass(frozen=True)
class Inferred(Leaf):
    """A measured number with a rule of its own for its interval, such as a mean over test images.

    ``interval`` gives the estimate at a level; ``device`` as that of a series.
    """

    interval: Callable[[float], Estimate] = field(compare=False, kw_only=True)
    device: str = ""


@dataclass(frozen=True)
class Absent(Leaf):
    """A quantity that is not there, and why."""

    reason: Missing = field(default_factory=lambda: Missing("not measured"))


def measured(
    name: str,
    unit_name: str,
    processes: Sequence[Process],
    source: str,
    device: str = "",
    further: tuple[str, ...] = (),
) -> Leaf:
    """A series as a leaf; absent where no process has a sample."""
    filled = tuple(process for process in processes if process.samples)
    if not filled:
        return Absent(unit(unit_name), name, source, Missing(f"{name} was not recorded"))
    return Sampled(unit(unit_name), name, source, filled, device, further=further)


def exact(
    name: str,
    unit_name: str,
    value: Number | Fraction,
    source: str = "",
    further: tuple[str, ...] = (),
) -> Exact:
    """A number without uncertainty as a leaf."""
    return Exact(unit(unit_name), name, source, value, further=further)


def recorded(name: str, unit_name: str, value: Number | Missing, source: str = "") -> Leaf:
    """A number of a record without uncertainty, or why it is not there."""
    if isinstance(value, Missing):
        return absent(name, unit_name, value.reason)
    return exact(name, unit_name, value, source)


def reported(
    name: str, unit_name: str, value: Number, decimals: int, source: str
) -> ReportedNumber:
    """A number of a source as a leaf."""
    return ReportedNumber(unit(unit_name), name, source, value, decimals)


def absent(name: str, unit_name: str, reason: str) -> Absent:
    """A missing number as a leaf."""
    return Absent(unit(unit_name), name, "", Missing(reason))


def as_quantity(thing: Quantity | Number) -> Quantity:
    """A plain number is an exact one of unit 1."""
    return thing if isinstance(thing, Quantity) else Exact(ONE, f"{thing:g}", "", thing)


# ---------------------------------------------------------------------------------- operations


@dataclass(frozen=True)
class Operation:
    """A rule that makes one quantity of several.

    ``value`` computes it from numbers; ``bounds`` from intervals, so that the result holds wherever
    all of them hold; ``text`` writes the formula.  Both raise ``ArithmeticError`` where there is no
    result.  ``widened`` says that its bounds hold more than its values in single processes tell.
    """

    name: str
    unit: Callable[[Sequence[Unit]], Unit]
    value: Callable[[Sequence[float]], float]
    bounds: Callable[[Sequence[Bounds]], Bounds]
    text: Callable[[Sequence[str]], str]
    binding: int = NAME
    widened: bool = False


@dataclass(frozen=True, eq=False)
class Derived(Quantity):
    """The result of an operation on ``operands``; ``name`` replaces it in other formulas.

    Each is a quantity of its own, since comparing whole trees would take long.
    """

    operation: Operation
    operands: tuple[Quantity, ...]
    name: str = ""

    @property
    def parts(self) -> tuple[Quantity, ...]:
        return self.operands

    @cached_property
    def sampled(self) -> bool:
        """Whether its value depends on measured series."""
        return any(isinstance(leaf, Sampled) for leaf in self.leaves)

    @cached_property
    def widened(self) -> bool:
        return self.operation.widened or super().widened

    @cached_property
    def constants(self) -> list[float]:
        """Its value, once it was computed, where it depends on no series."""
        return []

    @property
    def binding(self) -> int:
        return NAME if self.name else self.operation.binding

    @property
    def symbol(self) -> str:
        return self.name or self.formula

    @property
    def formula(self) -> str:
        return self.written(lambda part: part.symbol)

    def written(self, show: Callable[[Quantity], str]) -> str:
        """The formula with ``show`` of each operand in its place, in brackets where needed."""
        return self.operation.text(
            [
                f"({show(part)})" if _needs_brackets(self, part, index) else show(part)
                for index, part in enumerate(self.operands)
            ]
        )


def combine(operation: Operation, *operands: Quantity) -> Derived:
    """The quantity that ``operation`` makes of ``operands``.

    Raises ``UnitError`` with the place in the study that asked for it.
    """
    try:
        result = operation.unit([operand.unit for operand in operands])
    except UnitError as error:
        names = " and ".join(f"{part.symbol} ({part.unit})" for part in operands[:2])
        raise UnitError(f"{_caller()}: {operation.name} of {names}: {error}") from None
    return Derived(result, operation, operands)


def named(name: str, quantity: Quantity) -> Quantity:
    """``quantity`` under a name that stands for it in other formulas."""
    return replace(quantity, name=name) if isinstance(quantity, Derived) else quantity


def product_bounds(intervals: Sequence[Bounds]) -> Bounds:
    """The bounds of a product of two."""
    (a, a_low, a_high), (b, b_low, b_high) = intervals
    ends = [x * y for x in (a_low, a_high) for y in (b_low, b_high)]
    return a * b, min(ends), max(ends)


def quotient_bounds(intervals: Sequence[Bounds]) -> Bounds:
    """The bounds of a quotient of two; raises ``ZeroDivisionError``."""
    above, (value, low, high) = intervals
    if low <= 0 <= high:
        raise ZeroDivisionError("the interval of the divisor holds 0")
    return product_bounds([above, (1 / value, 1 / high, 1 / low)])


ADD: Final = Operation(
    "the sum",
    same_unit,
    lambda v: v[0] + v[1],
    lambda i: (i[0][0] + i[1][0], i[0][1] + i[1][1], i[0][2] + i[1][2]),
    " + ".join,
    SUM,
)
SUBTRACT: Final = Operation(
    "the difference",
    same_unit,
    lambda v: v[0] - v[1],
    lambda i: (i[0][0] - i[1][0], i[0][1] - i[1][2], i[0][2] - i[1][1]),
    " − ".join,
    SUM,
)
MULTIPLY: Final = Operation(
    "the product", lambda u: u[0] * u[1], lambda v: v[0] * v[1], product_bounds, " · ".join,
    PRODUCT,
)  # fmt: skip
DIVIDE: Final = Operation(
    "the quotient", lambda u: u[0] / u[1], lambda v: v[0] / v[1], quotient_bounds, " / ".join,
    PRODUCT,
)  # fmt: skip


def _caller() -> str:
    """File and line of the study, or other code outside the product, that builds the quantity."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _between(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{'/'.join(Path(frame.f_code.co_filename).parts[-3:])}:{frame.f_lineno}"


def _between(file: str) -> bool:
    """Whether ``file`` is code of the product that works for a study."""
    return file.startswith(_PRODUCT_CODE) and not file.startswith(_STUDIES)


def _needs_brackets(whole: Derived, part: Quantity, index: int) -> bool:
    """Also for what stands behind a minus or a slash, which bind what follows."""
    binding = whole.operation.binding
    if binding == NAME:
        return False
    tight = whole.operation in (SUBTRACT, DIVIDE) and index > 0
    return part.binding < binding or (tight and part.binding == binding)
