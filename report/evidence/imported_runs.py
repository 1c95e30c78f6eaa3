"""What others measured, case by case, as quantities; and who they are.

An imported record is a run by itself: it is pooled with no other, and no case of it stands beside a
case of an own record unless a study puts it there by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from report.evidence.runs import Factors, described, processes_of
from report.missing import Missing
from report.quantity.expression import Leaf, absent, exact, measured, reported
from report.records.imported_files import StoredImport
from report.records.quantities import QUANTITIES
from report.records.record import Case, Factor


@dataclass(frozen=True)
class ImportedRun:
    """One imported record."""

    stored: StoredImport

    @property
    def file(self) -> str:
        """The record's file, the source of everything below."""
        return self.stored.file

    @property
    def label(self) -> str:
        """The device in words, with who measured on it."""
        return self.stored.label

    @property
    def conditions(self) -> Mapping[str, Factor]:
        """What holds for all cases, such as the precision."""
        return self.stored.record.conditions

    @cached_property
    def _cases(self) -> dict[frozenset[tuple[str, Factor]], Case]:
        return {frozenset(case.factors.items()): case for case in self.stored.record.cases}

    def where(self, **levels: Factor) -> Iterator[Case]:
        """The cases that have these levels, in the order of the published file."""
        wanted = levels.items()
        return (case for case in self.stored.record.cases if wanted <= case.factors.items())

    def case(self, factors: Factors) -> Case | Missing:
        """The case with exactly these factors if it was measured, else why there is none."""
        case = self._cases.get(frozenset(factors.items()))
        if case is None:
            return Missing(f"not published for {self.label}")
        return case if case.status == "ok" else Missing(f"{self.label}: {case.reason}")

    def series(self, quantity: str, factors: Factors) -> Leaf:
        """A measured series as a quantity; a single published sample has no interval."""
        name, unit = described(quantity, factors), QUANTITIES[quantity].unit
        case = self.case(factors)
        if isinstance(case, Missing):
            return absent(name, unit, case.reason)
        processes = tuple(processes_of(case, quantity, "retained", self.file))
        if not processes:
            return absent(name, unit, f"{quantity.replace('_', ' ')} is not in {self.file}")
        return measured(name, unit, processes, self.file, self.stored.record.environment.device)

    def count(self, quantity: str, factors: Factors) -> Leaf:
        """A published count, such as multiply-adds, between the bounds of its rounding."""
        name, unit = described(quantity, factors), QUANTITIES[quantity].unit
        case = self.case(factors)
        samples = () if isinstance(case, Missing) else case.samples(quantity)
        if len(samples) != 1:
            reason = case.reason if isinstance(case, Missing) else f"not in {self.file}"
            return absent(name, unit, str(reason))
        step = self.stored.record.rounding.get(quantity)
        if step is None:
            return exact(name, unit, samples[0], self.file)
        return reported(name, unit, samples[0], -round(math.log10(step)), self.file)


@dataclass(frozen=True)
class Attribution:
    """Who measured what a paper uses, where it is published and under which licence."""

    author: str
    licence: str
    address: str | None
    commit: str | None
    instrument: str
    devices: tuple[str, ...] = ()
    files: int = 0

    @property
    def line(self) -> str:
        """The devices with who measured on them, for lists of machines."""
        return f"{', '.join(self.devices)}: measured by {self.author}, licence {self.licence}"

    def as_json(self) -> dict[str, Any]:
        """The parts by their names, and the line of all."""
        return {**asdict(self), "devices": list(self.devices), "line": self.line}


def attributions(stored: Iterable[StoredImport]) -> tuple[Attribution, ...]:
    """An attribution for all records of one origin, in the order of their files."""
    found: dict[Attribution, list[str]] = {}
    for each in stored:
        o = each.record.origin
        origin = Attribution(o.author, o.licence, o.address, o.commit, o.instrument)
        found.setdefault(origin, []).append(each.record.environment.model)
    return tuple(
        replace(origin, devices=tuple(dict.fromkeys(devices)), files=len(devices))
        for origin, devices in found.items()
    )
