"""What one process measured."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cached_property

from report.quantity.intervals import inflation


@dataclass(frozen=True)
class Process:
    """The samples of one process, in the order in which they were taken, of one run.

    ``disturbed`` says that something else on the machine ran meanwhile.
    """

    run: str
    name: str
    samples: tuple[float, ...]
    disturbed: bool = False

    @cached_property
    def median(self) -> float:
        """The median of its samples."""
        return statistics.median(self.samples)

    @cached_property
    def inflation(self) -> float:
        """How many of its samples, which resemble each other, say as much as one by itself."""
        return inflation(self.samples)
