"""Whatever can be timed: a peer, ridgepoint, its engines alone, a bare interpreter."""

from __future__ import annotations

from typing import Protocol

from benchmarks.results import Sample, Tool
from benchmarks.scenarios import Scenario


class Subject(Protocol):
    """One participant.  Only ``measure`` is timed; everything else happens beside the clock."""

    @property
    def tool(self) -> Tool:
        """What it is called and what it makes."""
        ...

    @property
    def scenarios(self) -> frozenset[Scenario]:
        """The scenarios in which it takes part."""
        ...

    def prepare(self) -> dict[str, str]:
        """Install it, write its project and build it once; returns the versions of its parts."""
        ...

    def change(self, scenario: Scenario, turn: int) -> None:
        """Make the change of ``scenario``, another one in every turn (0, 1, …)."""
        ...

    def measure(self, scenario: Scenario) -> Sample:
        """Build; raises ``CommandError`` if that fails."""
        ...

    def faults(self, scenario: Scenario, last: bool) -> tuple[str, ...]:
        """What is wrong with the outputs now; ``last`` allows a check that takes long."""
        ...
