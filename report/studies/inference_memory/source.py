"""The source of inference_memory: numbers that others determine, and what became of each item."""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Final

from report.core.records.reported import Reported
from report.evidence.audit import Check, check, exact, printed_value, total

#: Everything that the source shows, what we did with it, and the result.
ACCOUNT: Final = (
    ("Fig. 1, bottom; peak grows with the batch", "another GPU and cuDNN", "not general"),
    ("Fig. 3, bottom; average memory in FP16", "peaks on a GPU", "saves or costs"),
    ("Fig. 5, bottom; peak with AMP + AMC", "both settings on a CPU", "save more together"),
    ("Section III-B; Mini-ImageNet", "random images of the size", "bytes need no values"),
    ("Fig. 6; larger tiles are faster, take more memory", "crops on a CPU", "agrees"),
    ("Fig. 6; tiles are effective", "crops on a CPU", "save memory, cost time"),
    ("Figs. 3 and 5, top, 4, 7; time, accuracy", "no question of memory", "left out"),
    ("Figs. 1, top, 2; Sections III, V; time, depth, waits", "few or no values", "left out"),
)


def checks(reported: Reported) -> Iterator[Check]:
    """Recompute every number of the source that other numbers determine."""
    of = partial(printed_value, reported)
    images = [of(f"cifar_{which}") for which in ("training", "test")]
    yield check(of("cifar_images"), "training and test images", total, *images)
    side = exact(32, "1", "description of the data set")
    yield check(of("cifar_side"), "side of its images", total, side)
    for which in ("low", "high"):
        rate = of(f"frame_rate_{which}")
        yield check(of("frame_budget"), f"a frame at the {which} rate", _period, rate)


def _period(rate: Fraction) -> Fraction:
    """Return the milliseconds of a frame."""
    return 1000 / rate
