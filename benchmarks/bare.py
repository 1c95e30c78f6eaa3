"""The least that a Python program takes: an interpreter that imports what hashing needs."""

from __future__ import annotations

import sys
from typing import Final

from benchmarks.environment import ROOT
from benchmarks.results import Sample, Tool
from benchmarks.scenarios import Scenario
from benchmarks.timing import Command, plain_environment, run

_CODE: Final = "import json, hashlib"


class Bare:
    """See ``benchmarks.subject.Subject``."""

    scenarios: Final = frozenset({Scenario.NOOP})
    tool: Final = Tool(
        name="python",
        title=f'`python -c "{_CODE}"`',
        makes="nothing",
        caching="none",
        missing=None,
    )

    def prepare(self) -> dict[str, str]:
        """See ``Subject``."""
        self.measure(Scenario.NOOP)
        return {}

    def change(self, scenario: Scenario, turn: int) -> None:
        """Nothing."""

    def measure(self, scenario: Scenario) -> Sample:
        """See ``Subject``."""
        return run(Command((sys.executable, "-c", _CODE), ROOT, plain_environment()))[0]

    def faults(self, scenario: Scenario, last: bool) -> tuple[str, ...]:
        """None."""
        return ()
