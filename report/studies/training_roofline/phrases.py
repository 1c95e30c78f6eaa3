"""Numbers as the verdicts of claims tell them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from report.missing import Missing
from report.quantity.evaluation import estimate, faster, slower
from report.quantity.expression import Quantity
from report.statistics.estimates import CONFIDENCE, Estimate
from report.studies.training_roofline.measured import alone, surest
from report.studies.training_roofline.subject import Step
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
        f"{sum(map(slower, gains))}{at}{alone_told(gains)}"
    )


def extremes(gains: Mapping[Step, Quantity]) -> str:
    """The surest gain above 1 and the surest below, with their steps; nothing if none is clear."""
    told = ""
    for word, clear, least in (("most", faster, False), ("least", slower, True)):
        best = surest((gain for gain in gains.values() if clear(gain)), least=least)
        if best is not None:
            step = next(step for step, gain in gains.items() if gain is best)
            told += (
                f"; {word} surely {with_interval(best)} times ({step.network}, {step.image} "
                f"pixels, {step.setting})"
            )
    return told


def alone_told(quantities: Iterable[Quantity]) -> str:
    """What to say of steps that one process measured, by which no claim is decided."""
    return "; a series of one process decides nothing" if any(map(alone, quantities)) else ""
