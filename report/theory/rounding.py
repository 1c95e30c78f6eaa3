"""Intervals of rounded numbers, in exact arithmetic.

A printed number stands for an interval: ``5.5`` with one decimal is any number from 5.45 to 5.55.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple


class Interval(NamedTuple):
    """All numbers from ``low`` to ``high``, both included."""

    low: Fraction
    high: Fraction

    def meets(self, other: "Interval") -> bool:
        """Return whether the two intervals have a number in common."""
        return self.low <= other.high and other.low <= self.high


def rounding_interval(value: Fraction, decimals: int | None) -> Interval:
    """Return all numbers that print as ``value``; ``decimals`` is None for an exact number.

    Both ends are included, since programs round halves up, down or to even.
    """
    half = Fraction(0) if decimals is None else Fraction(1, 2) / Fraction(10) ** decimals
    return Interval(value - half, value + half)


@dataclass(frozen=True)
class Rounded:
    """Positive number as printed or computed, and the interval of possible unrounded values."""

    value: Fraction
    interval: Interval

    @classmethod
    def exact(cls, value: int | float | Fraction) -> "Rounded":
        """Return a number whose interval contains only this number."""
        number = Fraction(value)
        return cls(number, Interval(number, number))

    @classmethod
    def printed(cls, digits: str) -> "Rounded":
        """Parse a printed decimal such as ``38.20``."""
        value = Fraction(digits)
        return cls(value, rounding_interval(value, len(digits.partition(".")[2])))

    def __add__(self, other: "Rounded") -> "Rounded":
        left, right = self.interval, other.interval
        return Rounded(
            self.value + other.value, Interval(left.low + right.low, left.high + right.high)
        )

    def __mul__(self, other: "Rounded") -> "Rounded":
        left, right = self.interval, other.interval
        product = Interval(left.low * right.low, left.high * right.high)
        return Rounded(self.value * other.value, product)

    def __truediv__(self, other: "Rounded") -> "Rounded":
        left, right = self.interval, other.interval
        # The bounds of positive numbers; a negative divisor would need the opposite ones.
        quotient = Interval(left.low / right.high, left.high / right.low)
        return Rounded(self.value / other.value, quotient)

    def meets(self, other: "Rounded") -> bool:
        """Return whether the two intervals have a value in common."""
        return self.interval.meets(other.interval)

    def scaled(self, factor: int | float | Fraction) -> "Rounded":
        """Return the number times an exact factor."""
        return self * Rounded.exact(factor)


def evaluate(formula: str, value_of: Callable[[str], Rounded]) -> Rounded:
    """Compute a sum of products and quotients, such as ``2 * macs * rate / peak + -1``.

    ``value_of`` returns the number of a name.  Every name should occur once in a formula: two
    occurrences count as independent numbers, which widens the interval.
    """
    total = Rounded.exact(0)
    for summand in formula.split(" + "):
        product, words = Rounded.exact(1), ["*", *summand.split()]
        for operator, name in zip(words[::2], words[1::2], strict=True):
            value = Rounded.exact(int(name)) if name.lstrip("-").isdigit() else value_of(name)
            product = product * value if operator == "*" else product / value
        total += product
    return total
