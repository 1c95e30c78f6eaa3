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
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from report.core.errors import StudyError
from report.theory.allocator import Sum
from report.theory.timeline import LiveBytes

FitVerdict: TypeAlias = Literal["fits", "does not fit", "undecided"]

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT]i?)?B")
_UNITS: Final = {None: 1} | {
    f"{letter}{i}": (1024 if i else 1000) ** power
    for power, letter in enumerate("kMGT", start=1)
    for i in ("", "i")
}
#: The search ends at this batch.
MOST: Final = 2**20


class Prediction(Protocol):
    """Predicted memory of a call or a training step at one batch."""

    @property
    def peak(self) -> LiveBytes | None:
        """The moment at which most bytes are alive; None if unknown."""

    @property
    def cuda(self) -> dict[Sum, int] | None:
        """Largest sums of a GPU's allocator (B); None on a processor."""

    @property
    def complete(self) -> bool:
        """True if the peak includes all memory; otherwise the peak is a lower bound."""

    @property
    def compiled(self) -> tuple[str, ...]:
        """Modules of ``torch.compile``, which may need less than predicted."""

    @property
    def unlike_gpu(self) -> tuple[str, ...]:
        """Modules and operators that a GPU replaces by others."""


P = TypeVar("P", bound=Prediction)


def bytes_of(text: str) -> int:
    """Return the bytes of a size such as ``16GB`` or ``15.8 GiB``; raises ``StudyError``."""
    matched = _SIZE.fullmatch(text)
    if matched is None or (size := int(float(matched[1]) * _UNITS[matched[2]])) < 1:
        raise StudyError(f"{text!r} is no size of memory; give one such as 16GB or 15.8GiB.")
    return size


@dataclass(frozen=True)
class Fits(Generic[P]):
    """Predictions by batch for a ``limit`` in bytes, and the batches at its border.

    ``largest`` is the largest batch that may fit: 0 if none may, ``MOST`` if no smaller batch
    exceeds the limit.  ``certain`` is the largest batch that is known to fit; batches between the
    two are undecided.
    """

    limit: int
    predicted: dict[int, P]
    largest: int
    certain: int = 0

    @property
    def bracket(self) -> dict[int, P]:
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


def least(prediction: Prediction) -> int:
    """Return the lower bound of a call's memory (B); raises ``StudyError`` without a peak."""
    if prediction.peak is None:
        reason = ", ".join(prediction.unlike_gpu) or "it runs no operator"
        raise StudyError(f"The network has no known peak of memory, so no largest batch: {reason}.")
    return prediction.peak.total


def search(at: Callable[[int], P], limit: int, near: int | None = None) -> Fits[P]:
    """Search for the largest batch by the predictions ``at`` batches, starting ``near`` one."""
    predicted: dict[int, P] = {}
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


def _certain(frontier: Fits[P], at: Callable[[int], P]) -> int:
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
