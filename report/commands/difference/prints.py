"""Numbers of both sides as a reader sees them, and what can be said of their difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from report.missing import Missing
from report.paper.tables import Cell, Citation, Column, Table
from report.paper.values import NOT_MEASURED, Value
from report.statistics.estimates import Estimate
from report.text.format import (
    MISSING,
    NO_BREAK,
    Number,
    digits,
    interval_text,
    number_text,
    scale_for,
)

#: A relative change is printed to so many digits: it is a hint, and no estimate.
_DIGITS: Final = 2


@dataclass(frozen=True)
class Step:
    """From an old number to a new one.

    ``relative`` is new over old less one, printed in per cent; empty where one of them is missing
    or is not above 0, so that a share of it means nothing.  ``apart`` says whether the intervals
    have no number in common; None where a side has none.
    """

    relative: str
    apart: bool | None
    #: How large the change is, for an order; infinite where the two cannot be compared.
    size: float


def value_text(value: Value) -> str:
    """A number of the prose with its interval and unit, or why it was not measured."""
    number = value.number
    if isinstance(number, Missing):
        return f"{NOT_MEASURED} ({number.reason})"
    if not isinstance(number, Estimate) or number.low == number.high:
        return value.plain
    scale = scale_for(number, value.unit, value.style)
    text = f"{number_text(number, scale)} {interval_text(number, scale)}"
    return text if scale.unit == "1" else f"{text}{NO_BREAK}{scale.unit}"


def cell_text(table: Table, cell: Cell, column: Column) -> str:
    """A cell as its table prints it, with the reason of a missing one and the key of a work."""
    if isinstance(cell, Missing):
        return f"{MISSING} ({cell.reason})"
    if isinstance(cell, Citation):
        return f"[{cell.key}]"
    return table.cell_text(cell, column)


def samples(value: Value) -> int | None:
    """How many samples a number rests on; None for what is no estimate."""
    return value.number.n if isinstance(value.number, Estimate) else None


def step(old: Cell | None, new: Cell | None, *, comparable: bool = True) -> Step:
    """The step between two numbers; ``comparable`` is whether both have the same unit."""
    one, other = _central(old), _central(new)
    if one is None or other is None or not comparable:
        return Step("", None, math.inf)
    if one <= 0 or other <= 0:
        largest = max(abs(one), abs(other))
        return Step("", _apart(old, new), abs(other - one) / largest if largest else 0.0)
    share = other / one - 1
    return Step(_percent(share), _apart(old, new), abs(share))


def _central(cell: Cell | None) -> Number | None:
    if isinstance(cell, Estimate):
        return cell.value
    return cell if isinstance(cell, int | float) else None


def _apart(old: Cell | None, new: Cell | None) -> bool | None:
    if not isinstance(old, Estimate) or not isinstance(new, Estimate):
        return None
    return old.high < new.low or new.high < old.low


def _percent(share: float) -> str:
    if share == 0:
        return ""
    exponent = int(f"{abs(100 * share):e}".partition("e")[2])
    text = digits(100 * share, _DIGITS - 1 - exponent)
    return f"{'+' if share > 0 else ''}{text}{NO_BREAK}%"
