"""Audit of the numbers that the source printed."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from report.core.records.reported import Reported
from report.evidence.audit import Check, check, exact, printed_value, total

#: Pixels a side of a CIFAR-10 image, by the data set's own description.
_CIFAR_SIDE: Final = 32
_MILLI: Final = 1000


def checks(reported: Reported) -> tuple[Check, ...]:
    """Recompute every number of the source that other numbers determine."""
    images = [printed_value(reported, f"cifar_{which}") for which in ("training", "test")]
    budget = printed_value(reported, "frame_budget")
    rates = {which: printed_value(reported, f"frame_rate_{which}") for which in ("low", "high")}
    side = exact(_CIFAR_SIDE, "1", "description of the data set")
    return (
        check(printed_value(reported, "cifar_images"), "training and test images", total, *images),
        check(printed_value(reported, "cifar_side"), "side of its images", _same, side),
        *(check(budget, f"a frame at the {w} rate", _period, rate) for w, rate in rates.items()),
    )


def _same(side: Fraction) -> Fraction:
    return side


def _period(rate: Fraction) -> Fraction:
    """Return the milliseconds of a frame."""
    return _MILLI / rate
