"""Units as products of powers, so that adding bytes to FLOPs raises an error."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from report.core.errors import StudyError

#: A multiply-add (MAC) is 2 FLOP; only ``operations.flops`` converts MAC to FLOP.
BASE_UNITS: Final = (
    "FLOP", "MAC", "B", "s", "image", "call", "fault", "element", "parameter", "Hz", "W", "J", "°C",
)  # fmt: skip
#: A power such as ``s2``: symbol and exponent.
_POWER: Final = re.compile(r"([^\d\s·/()]+)(\d*)")


class UnitError(StudyError):
    """Two different units were added or compared, or a unit is invalid."""


@dataclass(frozen=True)
class Unit:
    """A product of powers of ``BASE_UNITS``, as sorted (symbol, nonzero exponent)."""

    powers: tuple[tuple[str, int], ...] = ()

    def __mul__(self, other: Unit) -> Unit:
        return _unit((*self.powers, *other.powers))

    def __truediv__(self, other: Unit) -> Unit:
        inverse = [(symbol, -exponent) for symbol, exponent in other.powers]
        return _unit((*self.powers, *inverse))

    def __str__(self) -> str:
        numerator = [_power(symbol, exponent) for symbol, exponent in self.powers if exponent > 0]
        denominator = [_power(symbol, -power) for symbol, power in self.powers if power < 0]
        text = "·".join(numerator) or "1"
        if not denominator:
            return text
        if len(denominator) == 1:
            return f"{text}/{denominator[0]}"
        return f"{text}/({'·'.join(denominator)})"


ONE: Final = Unit()


@lru_cache(maxsize=256)
def unit(text: str) -> Unit:
    """Parse a unit such as ``B/(s·image)``; raise ``UnitError`` if a symbol is no base unit."""
    numerator, _, denominator = text.partition("/")
    dividend = _unit(_powers(numerator, text))
    divisor = _unit(_powers(denominator.strip("()"), text))
    return dividend / divisor


def same_unit(units: Sequence[Unit]) -> Unit:
    """Return the common unit of ``units``; raises ``UnitError`` if they differ."""
    if len(set(units)) > 1:
        raise UnitError("these units cannot be compared; convert one of them.")
    return units[0]


def _powers(product: str, whole_unit: str) -> list[tuple[str, int]]:
    """Parse a product such as ``B·s2`` to (symbol, exponent); errors name ``whole_unit``."""
    if product in ("", "1"):
        return []
    powers: list[tuple[str, int]] = []
    for power in product.split("·"):
        match = _POWER.fullmatch(power)
        if match is None or match[1] not in BASE_UNITS:
            known = ", ".join(BASE_UNITS)
            raise UnitError(f"The unit {whole_unit!r} is not made of {known}; fix it.")
        powers.append((match[1], int(match[2] or 1)))
    return powers


def _unit(powers: Iterable[tuple[str, int]]) -> Unit:
    """Return the product of ``powers``; a symbol may appear in several powers."""
    exponents: Counter[str] = Counter()
    for symbol, exponent in powers:
        exponents[symbol] += exponent
    nonzero = [(symbol, exponent) for symbol, exponent in exponents.items() if exponent != 0]
    return Unit(tuple(sorted(nonzero)))


def _power(symbol: str, exponent: int) -> str:
    """Write a power such as ``s2``; the exponent 1 is left out."""
    return symbol if exponent == 1 else f"{symbol}{exponent}"
