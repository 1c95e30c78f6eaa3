"""What the source printed, as an audit of what follows from its own numbers."""

from __future__ import annotations

from fractions import Fraction

from report.evidence.audit import Check, check, exact, printed_value, total
from report.evidence.reported import Reported

#: Pixels a side of a CIFAR-10 image, by the data set's own description.
CIFAR_SIDE = 32
_MILLI = 1000


def checks(reported: Reported) -> tuple[Check, ...]:
    """Every number of the source that others determine, computed again."""
    value = printed_value
    return (
        check(
            value(reported, "cifar_images"),
            "training and test images",
            total,
            value(reported, "cifar_training"),
            value(reported, "cifar_test"),
        ),
        check(
            value(reported, "cifar_side"),
            "side of the images by their own description",
            _same,
            exact(CIFAR_SIDE, "1", "description of the data set"),
        ),
        *(
            check(
                value(reported, "frame_budget"),
                f"time of a frame at the {which} rate",
                _period,
                value(reported, f"frame_rate_{which}"),
            )
            for which in ("low", "high")
        ),
    )


def _same(side: Fraction) -> Fraction:
    return side


def _period(rate: Fraction) -> Fraction:
    """Milliseconds of a frame."""
    return _MILLI / rate
