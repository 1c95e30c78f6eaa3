"""The cases that own records of a study hold, whatever the edition, for sentences that deny them.

A paper reads the records of its edition.  A sentence such as "not measured on a GPU" is about all
records, so it asks here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from report.core.records.filed import REMEDY
from report.core.records.files import read_file
from report.core.records.quantities import QUANTITIES
from report.core.records.record import Factors, Level, Status
from report.core.records.store import Listed

#: Name of a device in selectors → in records.
DEVICES: Final = {"cpu": "cpu", "gpu": "cuda"}


class _Round(msgspec.Struct):
    status: Status = "ok"
    series: dict[str, msgspec.Raw] = {}


class _CoveredCase(_Round, kw_only=True):
    factors: Factors
    rounds: tuple[_Round, ...] = ()


class _CoveredFile(msgspec.Struct):
    cases: tuple[_CoveredCase, ...]


class CoveredCase(msgspec.Struct, frozen=True, gc=False):
    """A case that is ok, with its device, the quantities that it has, and its record."""

    device: str
    factors: Factors
    quantities: tuple[str, ...]
    file: str


#: All cases, those of the newest record first.
Coverage: TypeAlias = tuple[CoveredCase, ...]


def covered_cases(listed: Iterable[Listed], data: Path) -> Coverage:
    """List the cases of full and custom runs that are ok, without reading their samples."""
    cases: list[CoveredCase] = []
    for item in sorted(listed, key=_start, reverse=True):
        if item.record.protocol.plan == "quick":
            continue
        for part in item.shards:
            text = read_file(data / part.file, f"data/{part.file}", REMEDY, data)
            content = msgspec.json.decode(text, type=_CoveredFile)
            device = part.record.environment.device
            for case in content.cases:
                if case.status == "ok":
                    names = _quantities(case)
                    cases.append(CoveredCase(device, case.factors, names, part.file))
    return tuple(cases)


def _start(item: Listed) -> tuple[str, str]:
    return item.record.started, item.file


def _quantities(case: _CoveredCase) -> tuple[str, ...]:
    names = set(case.series)
    for round_ in case.rounds:
        if round_.status == "ok":
            names.update(round_.series)
    return tuple(sorted(names))


@dataclass(frozen=True)
class Measured:
    """Cases of own records; ``passes`` is true of a record's file that no gate refuses."""

    cases: Coverage
    passes: Callable[[str], bool]

    def record_with(self, selectors: Iterable[str], factors: Mapping[str, Level]) -> str:
        """Name the newest record with such a case; empty if no record has one.

        Raises ``ValueError`` for a factor that no case has.
        """
        known = sorted({name for case in self.cases for name in case.factors})
        for name in factors:
            if name not in known:
                names = ", ".join(known) or "none"
                raise ValueError(f"{name} is no factor of a record; these are: {names}")
        devices = {DEVICES[name] for name in selectors if name in DEVICES}
        quantities = {name for name in selectors if name not in DEVICES}
        refused: set[str] = set()
        for case in self.cases:
            if case.file in refused or (devices and case.device not in devices):
                continue
            if quantities.issubset(case.quantities) and factors.items() <= case.factors.items():
                if self.passes(case.file):
                    return case.file
                refused.add(case.file)
        return ""


def check_selectors(selectors: Iterable[object]) -> None:
    """Raise ``ValueError`` for a selector that is neither a device nor a quantity."""
    for name in selectors:
        if name in DEVICES or name in QUANTITIES:
            continue
        known = get_close_matches(str(name), QUANTITIES, n=3) or sorted(QUANTITIES)
        raise ValueError(
            f"{name} is no device or quantity; write cpu, gpu, or a quantity: {', '.join(known)}"
        )
