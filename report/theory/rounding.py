"""Intervals of rounded numbers, in exact arithmetic.

A printed number represents an interval: ``5.5`` is any number from 5.45 to 5.55.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple


class Interval(NamedTuple):
    """All numbers from ``low`` to ``high``, both included."""

    low: Fraction
    high: Fraction

    def overlaps(self, other: "Interval") -> bool:
        """Tell whether the two intervals have a number in common."""
        return self.low <= other.high and other.low <= self.high


def rounding_interval(value: Fraction, decimals: int | None) -> Interval:
    """Return all numbers that print as ``value``; ``decimals`` is None for an exact number.

    Both ends are included, since programs round halves up, down or to even.
    """
    half = Fraction(0) if decimals is None else Fraction(1, 2) / Fraction(10) ** decimals
    return Interval(value - half, value + half)


@dataclass(frozen=True)
class Rounded:
    """Number as printed or computed, and the interval of possible unrounded values."""

    value: Fraction
    interval: Interval

    @classmethod
    def from_exact(cls, value: int | float | Fraction) -> "Rounded":
        """Return a number whose interval contains only this number."""
        number = Fraction(value)
        return cls(number, Interval(number, number))

    @classmethod
    def parse(cls, digits: str) -> "Rounded":
        """Parse a printed decimal such as ``38.20``."""
        value = Fraction(digits)
        return cls(value, rounding_interval(value, len(digits.partition(".")[2])))

    def __add__(self, other: "Rounded") -> "Rounded":
        return self._combined(other, operator.add)

    def __mul__(self, other: "Rounded") -> "Rounded":
        return self._combined(other, operator.mul)

    def __truediv__(self, other: "Rounded") -> "Rounded":
        """Divide the numbers; raises ``ZeroDivisionError`` if the divisor may be 0."""
        if other.interval.low <= 0 <= other.interval.high:
            raise ZeroDivisionError("the interval of the divisor contains 0")
        return self._combined(other, operator.truediv)

    def _combined(
        self, other: "Rounded", operation: Callable[[Fraction, Fraction], Fraction]
    ) -> "Rounded":
        """Apply an operation whose smallest and largest results are at ends of the intervals."""
        results = [operation(left, right) for left in self.interval for right in other.interval]
        interval = Interval(min(results), max(results))
        return Rounded(operation(self.value, other.value), interval)

    def overlaps(self, other: "Rounded") -> bool:
        """Tell whether the two intervals have a value in common."""
        return self.interval.overlaps(other.interval)

    def scaled(self, factor: int | float | Fraction) -> "Rounded":
        """Return the number times an exact factor."""
        return self * Rounded.from_exact(factor)


def evaluate(formula: str, value_of: Callable[[str], Rounded]) -> Rounded:
    """Compute a sum of products and quotients, such as ``2 * macs * rate / peak + -1``.

    ``value_of`` returns the number of a name.  Every name should occur once in a formula: two
    occurrences count as independent numbers, which widens the interval.  Raises
    ``ZeroDivisionError`` if a divisor may be 0.
    """
    total = Rounded.from_exact(0)
    for summand in formula.split(" + "):
        product, words = Rounded.from_exact(1), ["*", *summand.split()]
        for sign, name in zip(words[::2], words[1::2], strict=True):
            value = Rounded.from_exact(int(name)) if name.lstrip("-").isdigit() else value_of(name)
            product = product * value if sign == "*" else product / value
        total += product
    return total
