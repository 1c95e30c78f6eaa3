"""Operations on several quantities, such as the largest, and conversions of units."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from report.quantity.expression import (
    Bounds,
    Derived,
    ExactNumber,
    Operation,
    Precedence,
    Quantity,
    combine,
)
from report.quantity.units import ONE, Unit, UnitError, same_unit, unit

#: Function that chooses one of several values, such as ``max``.
_Choice: TypeAlias = Callable[[Sequence[float]], float]
#: Function that writes a formula from the texts of the operands.
_FormulaText: TypeAlias = Callable[[Sequence[str]], str]

#: Name of the operation that ``restrict_to_common_terms`` and ``describe_terms`` look for.
_MEAN: Final = "the geometric mean"
#: Separators of operands and of levels in a formula such as ``time(batch 8) / time(batch 1)``.
_BETWEEN_LEVELS: Final = re.compile(r", | [/·−+] |[()]")
_DIGIT: Final = re.compile(r"\d")

#: One multiply-add is exactly two FLOPs.
FLOP_PER_MAC: Final = ExactNumber(unit("FLOP/MAC"), "2", "", 2)


def smallest(*quantities: Quantity) -> Derived:
    """Return the smallest of ``quantities``, such as the tightest of several limits."""
    return combine(_extreme("the smallest", min), *quantities)


def largest(*quantities: Quantity) -> Derived:
    """Return the largest of ``quantities``; its bounds hold if all intervals hold."""
    return combine(_extreme("the largest", max), *quantities)


def range_over(*quantities: Quantity) -> Derived:
    """Return the first of ``quantities``, with bounds widened to contain the bounds of all."""

    def text(operands: Sequence[str]) -> str:
        return f"{operands[0]}, with the bounds of {_listed(operands)}"

    return combine(_choice_operation("the range", _first, text, needs_bounds=True), *quantities)


def common_value(*quantities: Quantity) -> Derived:
    """Return the common value of all ``quantities``; the result is missing if values differ."""

    def common(values: Sequence[float]) -> float:
        low, high = min(values), max(values)
        if low != high:
            ends = f"from {float(low):,.6g} to {float(high):,.6g}"
            raise ArithmeticError(f"differs between rows, {ends}")
        return values[0]

    def text(operands: Sequence[str]) -> str:
        if len(operands) == 1:
            return operands[0]
        return f"{_listed(operands)}, the same in each row"

    # The common value is in the intersection of all intervals: largest low end, smallest high end.
    return combine(
        _choice_operation("the common value", common, text, low=max, high=min), *quantities
    )


def geometric_mean(*ratios: Quantity) -> Derived:
    """Return the geometric mean of numbers of unit 1, such as ratios (Hoefler and Belli, SC'15)."""

    def mean(values: Sequence[float]) -> float:
        return math.exp(math.fsum(math.log(value) for value in values) / len(values))

    def bounds(intervals: Sequence[Bounds]) -> Bounds:
        values, lows, highs = zip(*intervals, strict=True)
        return mean(values), mean(lows), mean(highs)

    def text(operands: Sequence[str]) -> str:
        return f"geometric mean of {_listed(operands)}"

    return combine(Operation(_MEAN, _unit_of_ratios, mean, bounds, text), *ratios)


def restrict_to_common_terms(means: Sequence[Quantity]) -> list[Quantity]:
    """Restrict the geometric means of several runs to the terms that all runs have.

    If one of ``means`` is no geometric mean, or if the runs have no common term, all ``means`` are
    returned unchanged.
    """
    if not means:
        return []
    terms_of_means = [_terms(mean) for mean in means]
    common = list(terms_of_means[0])
    for terms in terms_of_means:
        common = [levels for levels in common if levels in terms]
    if not common:
        return [*means]
    restricted: list[Quantity] = []
    for mean, terms in zip(means, terms_of_means, strict=True):
        operands = tuple(terms[levels] for levels in common)
        restricted.append(replace(mean, operands=operands))  # type: ignore[call-arg]
    return restricted


def describe_terms(quantity: Quantity) -> str:
    """Describe the terms of a geometric mean («7 cases, batch 8 to 512»); "" without terms."""
    levels_of_terms = list(_terms(quantity))
    if not levels_of_terms:
        return ""
    parts = [f"{len(levels_of_terms)} cases"]
    for first, last in zip(levels_of_terms[0], levels_of_terms[-1], strict=False):
        if first != last:
            factor, _, _ = first.rpartition(" ")
            parts.append(f"{first} to {last.removeprefix(f'{factor} ')}")
    return ", ".join(parts)


def _terms(quantity: Quantity) -> dict[tuple[str, ...], Quantity]:
    """Return the terms of a geometric mean; the keys are levels, as in ``("batch 8", "batch 1")``.

    The result is empty for other quantities.  Levels without a digit, such as the name of a
    network, are left out, since only formulas of runs with several networks contain such levels.
    """
    if not isinstance(quantity, Derived) or quantity.operation.name != _MEAN:
        return {}
    terms: dict[tuple[str, ...], Quantity] = {}
    for term in quantity.operands:
        parts = _BETWEEN_LEVELS.split(term.formula)
        levels = [part for part in parts if _DIGIT.search(part)]
        terms[tuple(dict.fromkeys(levels))] = term
    return terms


def counted_in(unit_name: str, number: Quantity) -> Derived:
    """Return a number of unit 1 in the unit ``unit_name``; raises ``UnitError`` for other units."""

    def counted_unit(units: Sequence[Unit]) -> Unit:
        if units[0] != ONE:
            raise UnitError(f"it has a unit already; convert it instead of counting {unit_name}.")
        return unit(unit_name)

    name = f"a count of {unit_name}"
    operation = Operation(
        name, counted_unit, value=_first, bounds=_first, text=_first, precedence=Precedence.PRODUCT
    )
    return combine(operation, number)


def flops(multiply_adds: Quantity) -> Derived:
    """Convert multiply-adds to floating-point operations (two per multiply-add)."""
    return FLOP_PER_MAC * multiply_adds  # type: ignore[return-value]


def _choice_operation(
    name: str,
    value: _Choice,
    text: _FormulaText,
    *,
    low: _Choice = min,
    high: _Choice = max,
    needs_bounds: bool = False,
) -> Operation:
    """Return an operation whose result is one of its operands.

    ``value`` chooses among the values, ``low`` and ``high`` among the ends of the intervals.
    """

    def bounds(intervals: Sequence[Bounds]) -> Bounds:
        values, lows, highs = zip(*intervals, strict=True)
        return value(values), low(lows), high(highs)

    return Operation(
        name, same_unit, value, bounds, text, Precedence.LIST, needs_bounds=needs_bounds
    )


def _extreme(name: str, choose: _Choice) -> Operation:
    """Return an operation that chooses the smallest or largest of several values."""

    def text(operands: Sequence[str]) -> str:
        return f"{name} of {_listed(operands)}" if len(operands) > 1 else operands[0]

    return _choice_operation(name, choose, text, low=choose, high=choose)


def _listed(texts: Sequence[str]) -> str:
    """List up to three texts, else the first and the last; list equal texts once, with a count."""
    if len(set(texts)) == 1 and len(texts) > 1:
        return f"{texts[0]} ({len(texts)} times)"
    return ", ".join(texts) if len(texts) <= 3 else f"{texts[0]}, …, {texts[-1]}"


def _first(items: Sequence[Any]) -> Any:
    """Return the first of several values, bounds or texts."""
    return items[0]


def _unit_of_ratios(units: Sequence[Unit]) -> Unit:
    """Return the unit 1; raises ``UnitError`` if an operand has another unit."""
    if set(units) != {ONE}:
        raise UnitError("a mean of ratios needs ratios; divide each quantity by its reference.")
    return ONE
