"""What the source printed: the audit of its numbers, and what became of everything in it."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from report.evidence.audit import Check, check, exact, printed_value, total
from report.evidence.reported import Reported

#: Pixels a side of a CIFAR-10 image, by the data set's own description.
_CIFAR_SIDE: Final = 32
_MILLI: Final = 1000

#: Everything that the source shows: what, and what became of it here.
ACCOUNT: Final = (
    ("Fig. 1, top; total time over batch", "audited: verdicts on its three statements"),
    ("Fig. 1, bottom; peak over batch", "reproduced on a CPU and on another GPU"),
    ("Fig. 2, top; time of a batch over depth", "reproduced: follows from time over batch"),
    ("Fig. 2, bottom; utilisation", "out of reach: prints no values, names no counter"),
    ("Fig. 3, top; time in FP16", "one process of another GPU: undecided"),
    ("Fig. 3, bottom; memory in FP16", "reproduced on another GPU, with its cause"),
    ("Fig. 4; accuracy and loss in FP16", "reproduced with digits for CIFAR-10"),
    ("Fig. 5, top; time with AMP + AMC", "not measured"),
    (
        "Fig. 5, bottom; peak with AMP + AMC",
        "reproduced on a CPU; not measured on a GPU",
    ),
    ("Fig. 6; tiles: time and memory", "reproduced, beside whole maps"),
    ("Fig. 6; tiles: utilisation", "out of reach, as in Fig. 2"),
    ("Fig. 7; speed-ups of Li et al.", "quoted by the source, four of 30 bars as numbers"),
    ("Sections I and III-B; printed numbers", "audited"),
    ("Sections III and V; waits, transfers", "out of reach: prints no values"),
)


def checks(reported: Reported) -> tuple[Check, ...]:
    """Every number of the source that others determine, computed again."""
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
    """Milliseconds of a frame."""
    return _MILLI / rate
