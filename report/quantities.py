"""What can be measured: each quantity with its one unit and its range.

A record names the unit of every series so that it can be read alone; reading checks the name and
the unit against this table, so that no study can mix seconds with milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Quantity:
    """A measurable quantity.

    ``unit`` is ``s``, ``B`` or ``1`` (a count); ``signed`` says that samples may be negative,
    ``whole`` that they are integers.
    """

    unit: str
    meaning: str
    signed: bool = False
    whole: bool = False

    def admits(self, samples: Sequence[float]) -> bool:
        """Whether all ``samples`` are finite numbers within the range of this quantity."""
        if not samples:
            return True
        if self.whole and not {type(sample) for sample in samples} <= {int}:
            return False
        low, high = min(samples), max(samples)
        return (self.signed or low >= 0) and all(map(math.isfinite, (low, high, sum(samples))))

    @property
    def range(self) -> str:
        """The numbers that are possible, in words."""
        kind = "a whole number" if self.whole else "a finite number"
        return kind if self.signed else f"{kind} of at least 0"


QUANTITIES: Final[dict[str, Quantity]] = {
    "time": Quantity("s", "duration of one call, after warm-up"),
    "first_call_time": Quantity("s", "a case's first call, kept apart from the samples"),
    "cpu_time": Quantity("s", "processor time of all threads during the same call"),
    "page_faults": Quantity("1", "pages mapped anew during the same call", whole=True),
    "memory_events": Quantity(
        "B",
        "the allocator's events during one call in order: allocations positive, frees negative",
        signed=True,
        whole=True,
    ),
    "allocated_before": Quantity("B", "bytes in live blocks before the call", whole=True),
    "allocated_after": Quantity(
        "B", "bytes in live blocks after the call, its results still held", whole=True
    ),
    "allocated_peak": Quantity("B", "most bytes in live blocks during the call", whole=True),
    "requested_before": Quantity("B", "bytes asked for by live tensors before", whole=True),
    "requested_after": Quantity("B", "bytes asked for by live tensors after", whole=True),
    "requested_peak": Quantity("B", "most bytes asked for during the call", whole=True),
    "reserved_before": Quantity("B", "bytes the allocator held from the device", whole=True),
    "reserved_after": Quantity("B", "bytes the allocator held afterwards", whole=True),
    "reserved_peak": Quantity("B", "most bytes the allocator held during the call", whole=True),
    "resident_peak": Quantity(
        "B", "highest resident memory of the process during the call", whole=True
    ),
    "resident_before": Quantity("B", "resident memory of the process before", whole=True),
}
