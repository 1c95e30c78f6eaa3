"""Numbers as the verdicts of claims tell them."""

from __future__ import annotations

from collections.abc import Collection

from report.missing import Missing
from report.quantity.evaluation import estimate, faster, slower
from report.quantity.expression import Quantity
from report.statistics.estimates import CONFIDENCE, Estimate
from report.text.format import NO_BREAK, interval_text, level_text, quantity_text, scale_for


def plain(number: float) -> str:
    """A number to three digits."""
    return quantity_text(float(f"{number:.3g}"), "1")


def percent(share: float) -> str:
    """A share to three digits, in per cent."""
    return quantity_text(float(f"{share:.3g}"), "1", "percent")


def share(quantity: Quantity) -> str:
    """A share with the digits that its interval leaves, in per cent."""
    found = estimate(quantity)
    return "unknown" if isinstance(found, Missing) else quantity_text(found, "1", "percent")


def with_interval(quantity: Quantity) -> str:
    """A number with its interval, on one line, and the level of it where that is low."""
    found = estimate(quantity)
    if isinstance(found, Missing):
        return "unknown"
    interval = interval_text(found, scale_for(found, "1"))
    return f"{quantity_text(found, '1')}{NO_BREAK}{interval}{level_text(found)}"


def counted(gains: Collection[Quantity]) -> str:
    """In how many comparisons something is faster, and slower, at the level that is reached."""
    levels = [found.confidence for gain in gains if isinstance(found := estimate(gain), Estimate)]
    least = f"{100 * min(levels, default=0):.0f}{NO_BREAK}%"
    at = f" (each at {least})" if levels and min(levels) < CONFIDENCE else ""
    return (
        f"faster in {sum(map(faster, gains))} of {len(gains)} steps and slower in "
        f"{sum(map(slower, gains))}{at}"
    )
