"""Numbers as the verdicts of claims tell them."""

from __future__ import annotations

from report.missing import Missing
from report.statistics.estimates import Estimate
from report.text.format import NO_BREAK, interval_text, quantity_text, scale_for


def plain(number: float) -> str:
    """A number to three digits."""
    return quantity_text(float(f"{number:.3g}"), "1")


def percent(share: float) -> str:
    """A share to three digits, in per cent."""
    return quantity_text(float(f"{share:.3g}"), "1", "percent")


def share(found: Estimate | Missing) -> str:
    """A share with the digits that its interval leaves, in per cent."""
    return "unknown" if isinstance(found, Missing) else quantity_text(found, "1", "percent")


def against(found: float | Missing) -> str:
    """A share that may be missing."""
    return "unknown" if isinstance(found, Missing) else percent(found)


def value(found: Estimate | Missing) -> float:
    """The number of an estimate; not a number where it is missing."""
    return float("nan") if isinstance(found, Missing) else found.value


def with_interval(estimate: Estimate) -> str:
    """A number with its interval, on one line."""
    text = f"{quantity_text(estimate, '1')} {interval_text(estimate, scale_for(estimate, '1'))}"
    return text.replace(" [", f"{NO_BREAK}[")
