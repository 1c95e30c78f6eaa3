"""Differences between two conditions that were tried on the same items, with intervals.

Scoring one trained network twice on the same images is such a pair: what makes an image hard is in
both scores and cancels in their difference.  scipy is imported where it is used, because a build
with nothing to do must not wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from report.errors import StudyError
from report.statistics.estimates import CONFIDENCE, Estimate


def share_difference(
    new: Sequence[int], old: Sequence[int], confidence: float = CONFIDENCE
) -> Estimate:
    """The share of ones in ``new`` minus that in ``old``, of the same items.

    The interval is that of Agresti and Min (Statistics in Medicine 2005, 24:729-740): half an item
    is added to each of the four outcomes of a pair, so that it has a width where no pair differs.
    Raises ``StudyError`` as ``mean_difference``, and for anything but 0 and 1.
    """
    from scipy.special import ndtri

    _check(new, old)
    if not {*new, *old} <= {0, 1}:
        raise StudyError("A share is taken of zeros and ones; give one of them for each item.")
    n = len(new)
    won = sum(a > b for a, b in zip(new, old, strict=True))
    lost = sum(a < b for a, b in zip(new, old, strict=True))
    items, gained, dropped = n + 2, won + 0.5, lost + 0.5
    middle = (gained - dropped) / items
    spread = gained + dropped - (gained - dropped) ** 2 / items
    half = float(ndtri((1 + confidence) / 2)) * math.sqrt(spread) / items
    return Estimate((won - lost) / n, middle - half, middle + half, n, confidence)


def _check(new: Sequence[float], old: Sequence[float]) -> None:
    if len(new) != len(old) or len(new) < 2:
        raise StudyError(
            f"Paired items come in equal numbers and at least twice, found {len(new)} and "
            f"{len(old)}; score both conditions on the same items."
        )
