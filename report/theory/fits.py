"""Search for the largest batch whose memory fits into a limit; pure.

Live memory grows with the batch, so a secant needs few predictions.  Where no rule gives the memory
of an operator, a prediction is a lower bound: a batch below the limit is then undecided, and a
batch above the limit still does not fit.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from report.core.errors import StudyError
from report.theory.networks import BATCH, CapturedNetwork

if TYPE_CHECKING:
    from report.theory.network import Theory

FitVerdict: TypeAlias = Literal["fits", "does not fit", "undecided"]

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT]i?)?B")
_UNITS: Final = {None: 1} | {
    f"{letter}{i}": (1024 if i else 1000) ** power
    for power, letter in enumerate("kMGT", start=1)
    for i in ("", "i")
}
#: Batch of the trial that shows whether a capture at ``BATCH`` can be scaled.
PROBE: Final = 2
#: The search ends at this batch.
MOST: Final = 2**20


def bytes_of(text: str) -> int:
    """Return the bytes of a size such as ``16GB`` or ``15.8 GiB``; raises ``StudyError``."""
    matched = _SIZE.fullmatch(text)
    if matched is None or (size := int(float(matched[1]) * _UNITS[matched[2]])) < 1:
        raise StudyError(f"{text!r} is no size of memory; give one such as 16GB or 15.8GiB.")
    return size


@dataclass(frozen=True)
class Fits:
    """Predictions by batch for a ``limit`` in bytes, and the batches at its border.

    ``largest`` is the largest batch that may fit: 0 if none may, ``MOST`` if no smaller batch
    exceeds the limit.  ``certain`` is the largest batch that is known to fit; batches between the
    two are undecided.
    """

    limit: int
    predicted: dict[int, Theory]
    largest: int
    certain: int = 0

    @property
    def bracket(self) -> dict[int, Theory]:
        """The batches ``certain``, ``largest`` and the next one, as far as predicted."""
        batches = sorted({self.certain, self.largest, self.largest + 1})
        return {n: self.predicted[n] for n in batches if n in self.predicted}

    def verdict(self, batch: int) -> FitVerdict:
        """Judge a predicted batch; on a GPU it fits if the allocator's segments fit."""
        prediction = self.predicted[batch]
        if least(prediction) > self.limit and not prediction.compiled:
            return "does not fit"
        most = prediction.cuda["reserved"] if prediction.cuda else least(prediction)
        return "fits" if prediction.complete and most <= self.limit else "undecided"


def least(prediction: Theory) -> int:
    """Return the lower bound of a call's memory (B); raises ``StudyError`` without a peak."""
    if prediction.peak is None:
        reason = ", ".join(prediction.unlike_gpu) or "it runs no operator"
        raise StudyError(f"The network has no known peak of memory, so no largest batch: {reason}.")
    return prediction.peak.total


def search(at: Callable[[int], Theory], limit: int, near: int | None = None) -> Fits:
    """Search for the largest batch by the predictions ``at`` batches, starting ``near`` one."""
    predicted: dict[int, Theory] = {}
    low, high, batch = 0, MOST + 1, 1
    last, size = 0, 0
    while high - low > 1:
        before, (predicted[batch], last) = (last, size), (at(batch), batch)
        size = least(predicted[batch])
        low, high = (low, batch) if size > limit else (batch, high)
        if near is None:
            slope = (size - before[1]) / (batch - before[0])
            batch += int((limit - size) // slope) if slope > 0 else MOST
        else:
            batch, near = near, None
        batch = min(max(batch, low + 1), high - 1)
    frontier = Fits(limit, predicted, low)
    return replace(frontier, certain=_certain(frontier, at))


def _certain(frontier: Fits, at: Callable[[int], Theory]) -> int:
    """Return the largest batch that is known to fit; 0 if a batch of 1 is not known to."""

    def is_unknown(batch: int) -> bool:
        if batch not in frontier.predicted:
            frontier.predicted[batch] = at(batch)
        return frontier.verdict(batch) != "fits"

    if frontier.largest and not is_unknown(frontier.largest):
        return frontier.largest
    if not frontier.largest or is_unknown(1):
        return 0
    return bisect_left(range(1, frontier.largest), True, key=is_unknown)


def fits(captured: Callable[[int, int | None], Theory], limit: int) -> Fits:
    """Search for the largest batch whose peak is at most ``limit`` bytes.

    ``captured(batch, probe)`` returns a theory.  A network is captured once and scaled; if its
    forward pass at the batch ``PROBE`` differs, it is captured at every batch that the search
    needs.  Raises ``StudyError`` without a peak.
    """
    whole = captured(BATCH, PROBE)
    if whole.scales:
        return scaled_fits(CapturedNetwork(whole.network), whole, limit)

    def at(batch: int) -> Theory:
        return captured(batch, None)

    return search(at, limit)


def scaled_fits(captured: CapturedNetwork, whole: Theory, limit: int) -> Fits:
    """Search by scaling the network ``captured`` at ``BATCH``, which has the theory ``whole``."""
    near = MOST
    for fixed, per_image in captured.live_bytes:
        if per_image:
            near = min(near, (limit - fixed) // per_image)
    return search(partial(whole.at_batch, captured), limit, near)
