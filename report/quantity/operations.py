"""What can be asked of a quantity over the levels of a factor, such as its largest value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from report.quantity.expression import (
    LIST,
    PRODUCT,
    Derived,
    Exact,
    Interval,
    Operation,
    Quantity,
    combine,
)
from report.quantity.units import ONE, Unit, UnitError, same_unit, unit

_Choice: TypeAlias = Callable[[Sequence[float]], float]
_Words: TypeAlias = Callable[[Sequence[str]], str]

#: Exactly two FLOPs are one multiply-add.
FLOP_PER_MAC: Final = Exact(unit("FLOP/MAC"), "2", "", 2)


def at_most(*quantities: Quantity) -> Derived:
    """The smallest of ``quantities``: what the tightest bound leaves."""
    return combine(_extreme("the smallest of", min), *quantities)


def at_least(*quantities: Quantity) -> Derived:
    """The largest of ``quantities``."""
    return combine(_extreme("the largest of", max), *quantities)


def largest(over: Mapping[int, Quantity]) -> Derived:
    """The largest of a quantity over the levels of a factor, with simultaneous bounds."""
    return at_least(*over.values())


def spanning(*quantities: Quantity) -> Derived:
    """The first of ``quantities``, where it is not known which of them applies: bounds hold all."""

    def words(texts: Sequence[str]) -> str:
        return f"{texts[0]}, with the bounds of {_listed(texts)}"

    return combine(_one_of("any of", _first, words, widened=True), *quantities)


def constant(*quantities: Quantity) -> Derived:
    """The value that all of ``quantities`` share; where they differ there is none."""

    def shared(values: Sequence[float]) -> float:
        if any(value != values[0] for value in values):
            ends = f"from {float(min(values)):,.6g} to {float(max(values)):,.6g}"
            raise ArithmeticError(f"differs between rows, {ends}")
        return values[0]

    def words(texts: Sequence[str]) -> str:
        return f"{_listed(texts)}, the same in each row" if len(texts) > 1 else texts[0]

    # Where all intervals hold, so does what they have in common.
    return combine(_one_of("the one value of", shared, words, low=max, high=min), *quantities)


def geometric_mean(*ratios: Quantity) -> Derived:
    """The geometric mean, the only mean of ratios that has a meaning (Hoefler and Belli 2015)."""

    def mean(values: Sequence[float]) -> float:
        return math.exp(math.fsum(map(math.log, values)) / len(values))

    return combine(
        Operation(
            "the geometric mean",
            _ratios,
            mean,
            lambda intervals: tuple(map(mean, zip(*intervals, strict=True))),  # type: ignore[arg-type, return-value]
            lambda texts: f"geometric mean of {_listed(texts)}",
        ),
        *ratios,
    )


def counted_in(unit_name: str, number: Quantity) -> Derived:
    """A number without unit, such as a product of extents, as that many of a unit."""

    def check(units: Sequence[Unit]) -> Unit:
        if units[0] != ONE:
            raise UnitError(f"it has a unit already; convert it instead of counting {unit_name}.")
        return unit(unit_name)

    return combine(
        Operation(f"a count of {unit_name}", check, _first, _first, _first, PRODUCT), number
    )


def flops(multiply_adds: Quantity) -> Derived:
    """Multiply-adds as floating-point operations, two each."""
    return FLOP_PER_MAC * multiply_adds  # type: ignore[return-value]


def _one_of(
    name: str,
    value: _Choice,
    words: _Words,
    *,
    low: _Choice = min,
    high: _Choice = max,
    widened: bool = False,
) -> Operation:
    """One of several quantities by its values; ``low`` and ``high`` choose among the ends."""

    def bounds(intervals: Sequence[Interval]) -> Interval:
        values, lows, highs = zip(*intervals, strict=True)
        return value(values), low(lows), high(highs)

    return Operation(name, same_unit, value, bounds, words, LIST, widened=widened)


def _extreme(name: str, choose: _Choice) -> Operation:
    def words(texts: Sequence[str]) -> str:
        return f"{name} {_listed(texts)}" if len(texts) > 1 else texts[0]

    return _one_of(name, choose, words, low=choose, high=choose)


def _listed(texts: Sequence[str]) -> str:
    """All of a few terms, and the ends of many; one that stands for all of them once."""
    if len(set(texts)) == 1 and len(texts) > 1:
        return f"{texts[0]} ({len(texts)} times)"
    return ", ".join(texts) if len(texts) <= 3 else f"{texts[0]}, …, {texts[-1]}"


def _first(items: Sequence[Any]) -> Any:
    return items[0]


def _ratios(units: Sequence[Unit]) -> Unit:
    if set(units) != {ONE}:
        raise UnitError("a mean of ratios needs ratios; divide by what they are compared with.")
    return ONE
