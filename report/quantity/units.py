"""Units as products of powers, so that adding bytes to FLOPs raises an error."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from report.core.errors import StudyError

#: Base units.  One multiply-add is 1 MAC and 2 FLOP; only ``operations.flops`` converts MAC.
SYMBOLS: Final = (
    "FLOP", "MAC", "B", "s", "image", "call", "fault", "element", "parameter", "Hz", "W", "J", "°C",
)  # fmt: skip
_FACTOR: Final = re.compile(r"([^\d\s·/()]+)(\d*)")


class UnitError(StudyError):
    """Two different units were added or compared, or a unit is invalid."""


@dataclass(frozen=True)
class Unit:
    """A product of powers of ``SYMBOLS``: (symbol, exponent), sorted, without zero exponents."""

    powers: tuple[tuple[str, int], ...] = ()

    def __mul__(self, other: Unit) -> Unit:
        return _unit((*self.powers, *other.powers))

    def __truediv__(self, other: Unit) -> Unit:
        return _unit((*self.powers, *((symbol, -power) for symbol, power in other.powers)))

    def __str__(self) -> str:
        above = [_power(symbol, power) for symbol, power in self.powers if power > 0]
        below = [_power(symbol, -power) for symbol, power in self.powers if power < 0]
        text = "·".join(above) or "1"
        if not below:
            return text
        return f"{text}/{below[0]}" if len(below) == 1 else f"{text}/({'·'.join(below)})"


ONE: Final = Unit()


@lru_cache(maxsize=256)
def unit(text: str) -> Unit:
    """Parse a unit such as ``FLOP/s``, ``B/(s·image)`` or ``1``.

    Raises ``UnitError`` for a symbol that is not in ``SYMBOLS``.
    """
    numerator, _, denominator = text.partition("/")
    return _unit(_factors(numerator, text)) / _unit(_factors(denominator.strip("()"), text))


def same_unit(units: Sequence[Unit]) -> Unit:
    """Return the common unit of ``units``; raises ``UnitError`` if they differ."""
    if len(set(units)) > 1:
        raise UnitError("these units cannot be compared; convert one of them.")
    return units[0]


def _factors(text: str, whole: str) -> list[tuple[str, int]]:
    if text in ("", "1"):
        return []
    factors = [_FACTOR.fullmatch(part) for part in text.split("·")]
    known = [(match[1], int(match[2] or 1)) for match in factors if match and match[1] in SYMBOLS]
    if len(known) < len(factors):
        raise UnitError(f"The unit {whole!r} is not made of {', '.join(SYMBOLS)}; fix it.")
    return known


def _unit(powers: Iterable[tuple[str, int]]) -> Unit:
    total: Counter[str] = Counter()
    for symbol, power in powers:
        total[symbol] += power
    return Unit(tuple(sorted((symbol, power) for symbol, power in total.items() if power)))


def _power(symbol: str, power: int) -> str:
    return symbol if power == 1 else f"{symbol}{power}"
