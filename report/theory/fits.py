"""The largest batch whose memory fits, and the next one, which does not; pure.

What is alive grows with the batch, so that a secant finds the place from few predictions.  A
prediction is a lower bound where operators take memory that no rule gives; then a batch that may
fit is undecided, and one that is above the limit never fits.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from report.core.errors import StudyError
from report.theory.networks import BATCH, Captured

if TYPE_CHECKING:
    from report.theory.network import Theory

Verdict: TypeAlias = Literal["fits", "does not fit", "undecided"]

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT]i?)?B")
_UNITS: Final = {None: 1} | {
    f"{letter}{i}": (1024 if i else 1000) ** power
    for power, letter in enumerate("kMGT", start=1)
    for i in ("", "i")
}
#: No batch is looked for beyond this one.
MOST: Final = 2**20
#: Where a network is tried before it is captured at ``BATCH``.
PROBE: Final = 2


def bytes_of(text: str) -> int:
    """The bytes of a size such as ``16GB`` or ``15.8 GiB``; raises ``StudyError``."""
    matched = _SIZE.fullmatch(text)
    if matched is None or (size := int(float(matched[1]) * _UNITS[matched[2]])) < 1:
        raise StudyError(f"{text!r} is no size of memory; give one such as 16GB or 15.8GiB.")
    return size


@dataclass(frozen=True)
class Fits:
    """What was predicted by batch, for a ``limit`` in bytes; ``largest`` is 0 where none may fit.

    ``largest`` is ``MOST`` where no smaller batch was seen above the limit.  ``certain`` is the
    largest batch that is known to fit: batches between the two are undecided.
    """

    limit: int
    predicted: dict[int, Theory]
    largest: int
    certain: int = 0

    @property
    def bracket(self) -> dict[int, Theory]:
        """The largest batch that fits, the largest that may, and the next one, as far as known."""
        batches = sorted({self.certain, self.largest, self.largest + 1})
        return {n: self.predicted[n] for n in batches if n in self.predicted}

    def verdict(self, batch: int) -> Verdict:
        """Of a batch that was predicted: on a GPU it fits where all segments do."""
        theory = self.predicted[batch]
        if least(theory) > self.limit and not theory.compiled:
            return "does not fit"
        most = theory.cuda["reserved"] if theory.cuda else least(theory)
        return "fits" if theory.complete and most <= self.limit else "undecided"


def least(theory: Theory) -> int:
    """The bytes that a call takes at least; raises ``StudyError`` where no peak is known."""
    if theory.peak is None:
        what = ", ".join(theory.unlike_gpu) or "it runs no operator"
        raise StudyError(f"No peak of memory is known, so that no batch is: {what}.")
    return theory.peak.total


def fits(captured: Callable[[int, int | None], Theory], limit: int) -> Fits:
    """The largest batch whose peak is not above ``limit`` bytes; ``captured`` makes a theory.

    A network is captured once and scaled; if its forward pass at the batch ``PROBE`` is another
    one, every batch that is asked for is captured.  Raises ``StudyError`` where no peak is known.
    """
    whole = captured(BATCH, PROBE)
    if not whole.scales:
        return searched(lambda batch: captured(batch, None), limit)
    return scaled(Captured(whole.network), whole, limit)


def scaled(captured: Captured, whole: Theory, limit: int) -> Fits:
    """The same of a network that was ``captured`` at ``BATCH`` and is alike at every other."""
    rooms = [(limit - fixed) // each for fixed, each in captured.living if each]
    return searched(scaling(captured, whole), limit, near=min(rooms, default=MOST))


def scaling(captured: Captured, whole: Theory) -> Callable[[int], Theory]:
    """Makes the theory of such a network at a batch."""

    def at(batch: int) -> Theory:
        history = tuple(captured.scaled(each, batch) for each in whole.history)
        return replace(whole, network=captured.at(batch), history=history)

    return at


def searched(at: Callable[[int], Theory], limit: int, near: int | None = None) -> Fits:
    """The largest batch, by the theories that ``at`` makes; it is looked for ``near`` one first."""
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
    found = Fits(limit, predicted, low)
    return replace(found, certain=_certain(found, at))


def _certain(found: Fits, at: Callable[[int], Theory]) -> int:
    """The largest batch that is known to fit; 0 where one image is not, as nothing larger is."""

    def is_unknown(batch: int) -> bool:
        if batch not in found.predicted:
            found.predicted[batch] = at(batch)
        return found.verdict(batch) != "fits"

    if found.largest and not is_unknown(found.largest):
        return found.largest
    if not found.largest or is_unknown(1):
        return 0
    return bisect_left(range(1, found.largest), True, key=is_unknown)
