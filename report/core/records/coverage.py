"""Cases in all records that the project measured, to check sentences such as "not measured".

A paper computes only from the records of its edition (``data/editions.yaml``), but a sentence such
as "not measured on a GPU" is about all records of the study.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import msgspec

from report.core.records.quantities import QUANTITIES
from report.core.records.record import Factors, Level
from report.core.records.store import Stored, start_and_file

#: Name of a device in selectors → in records.
DEVICES: Final = {"cpu": "cpu", "gpu": "cuda"}


class CoveredCase(msgspec.Struct, frozen=True, gc=False):
    """A case with status ok: device, factors, measured quantities, and file of the record."""

    device: str
    factors: Factors
    quantities: tuple[str, ...]
    file: str


@dataclass(frozen=True)
class Measured:
    """The cases of all records that the project measured, newest record first."""

    cases: tuple[CoveredCase, ...] = ()

    def record_with(self, selectors: Iterable[str], factors: Mapping[str, Level]) -> str:
        """Return the newest record with a case that matches; empty if no record matches.

        ``selectors`` are devices and quantities, ``factors`` required levels.  Raises
        ``ValueError`` for a factor that no case has.
        """
        existing = set[str]()
        for case in self.cases:
            existing.update(case.factors)
        for name in factors:
            if name not in existing:
                names = ", ".join(sorted(existing)) or "none"
                raise ValueError(f"{name} is no factor of a record; these are: {names}")
        devices = {DEVICES[name] for name in selectors if name in DEVICES}
        if not devices:
            devices = set(DEVICES.values())
        quantities = {name for name in selectors if name not in DEVICES}
        for case in self.cases:
            if case.device not in devices or not quantities.issubset(case.quantities):
                continue
            if factors.items() <= case.factors.items():
                return case.file
        return ""


def covered_cases(usable: Iterable[Stored]) -> Measured:
    """List the cases with status ok of full and custom runs."""
    cases: list[CoveredCase] = []
    for run in sorted(usable, key=start_and_file, reverse=True):
        if run.record.protocol.plan == "quick":
            continue
        device = run.record.environment.device
        for case in run.record.cases:
            if case.status != "ok":
                continue
            quantities = set(case.series)
            for round_ in case.rounds:
                if round_.status == "ok":
                    quantities.update(round_.series)
            cases.append(CoveredCase(device, case.factors, tuple(sorted(quantities)), run.file))
    return Measured(tuple(cases))


def check_selectors(selectors: Iterable[object]) -> None:
    """Raise ``ValueError`` for a selector that is neither a device nor a quantity."""
    for name in selectors:
        if name in DEVICES or name in QUANTITIES:
            continue
        suggestions = get_close_matches(str(name), QUANTITIES, n=3) or sorted(QUANTITIES)
        raise ValueError(
            f"{name} is no device or quantity; write cpu, gpu, or a quantity: "
            f"{', '.join(suggestions)}"
        )
