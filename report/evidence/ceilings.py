"""The ceilings of a device: the best rates of arithmetic and of memory that its runs have shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from report.evidence import peaks
from report.evidence.peaks import FLOAT32
from report.evidence.remembered import remembered
from report.quantity.expression import Leaf, Quantity, absent, exact, measured, named
from report.quantity.operations import at_least
from report.quantity.process import Process
from report.records.record import Ceiling
from report.records.store import Stored

MOMENTS: Final = ("before", "after")
CEILING_UNITS: Final = {
    "matrix_product": "FLOP/s",
    "convolution": "FLOP/s",
    "copy": "B/s",
    "read": "B/s",
    "triad": "B/s",
    "page_mapping": "1/s",
}


@dataclass(frozen=True)
class MeasuredDevice:
    """The device of a record with its ceilings; ``label`` names it as a reader would.

    Ceilings are those of all runs that are pooled with the record.
    """

    stored: Stored
    label: str

    def of_processes(self, name: str, unit: str, processes: Sequence[Process]) -> Leaf:
        """A series of this device, at least one process; its sources are their runs."""
        first, *further = dict.fromkeys(process.run for process in processes)
        device = self.stored.record.environment.device
        return measured(name, unit, processes, first, device, tuple(further))

    @remembered
    def peak_rate(self, operation: str, moment: str = "", dtype: str = FLOAT32) -> Quantity:
        """The measured ceiling of an operation in FLOP/s, B/s or pages a second.

        The best of all instruments and sizes over the moments, before and after the series, or at
        one ``moment`` if it is named.  A matrix product stands for all arithmetic in ``dtype``, a
        copy for all that moves bytes between memory and the cores.
        """
        found = self._meant(operation, moment, dtype)
        if not found:
            name = f"ceiling of the {operation.replace('_', ' ')}"
            reason = self._no_ceiling(operation, moment, dtype)
            return absent(name, CEILING_UNITS[operation], reason)
        if operation == "page_mapping":
            return self._price(found)
        name = peaks.name_of(operation, [ceiling for _, ceiling in found])
        return named(
            f"ceiling of the {name}", at_least(*(self._ceiling_rate(*each) for each in found))
        )

    def _price(self, found: Sequence[tuple[str, Ceiling]]) -> Quantity:
        """Pages a second, in the median: mapping one is a price, of which the best is no limit.

        Where several runs measured it, each time that one did so is a unit.
        """
        file, first = found[0]
        what = peaks.described(first)
        samples: list[tuple[str, str, tuple[float, ...]]] = [
            (name, each.moment, tuple(map(float, each.samples))) for name, each in found
        ]
        if len(dict.fromkeys(name for name, _ in found)) == 1:
            samples = [(file, what, tuple(x for *_, each in samples for x in each))]
        processes = [Process(name, when, each) for name, when, each in samples]
        work = exact(f"work of the {what}", first.work_unit, first.work, file)
        return work / self.of_processes(f"time of the {what}", "s", processes)

    def _meant(self, operation: str, moment: str, dtype: str) -> list[tuple[str, Ceiling]]:
        """With their files: run by run, in the order of the moments, and of the record at each."""
        return [
            (stored.file, ceiling)
            for stored in self.stored.runs
            for at in (moment,) * bool(moment) or MOMENTS
            for ceiling in peaks.meant(stored.record, operation, dtype)
            if ceiling.moment == at
        ]

    def _no_ceiling(self, operation: str, moment: str, dtype: str) -> str:
        when = f"{moment} the series " if moment else ""
        what = "" if dtype == FLOAT32 else f" in {dtype}"
        measured_at_all = {c.operation for c in self.stored.record.ceilings if c.samples}
        if operation in measured_at_all and not what and not moment:
            return f"no working set beyond the caches was measured on {self.label}"
        return f"no ceiling{what} was measured {when}on {self.label}"

    def _ceiling_rate(self, file: str, ceiling: Ceiling) -> Quantity:
        """Its work over its time: the shortest where an instrument is named, else the median.

        A ceiling is the best that the machine has shown, as STREAM reports it (McCalpin 1995): that
        is a fact of the record, to which no other run of the machine need agree.
        """
        what = peaks.described(ceiling)
        work = exact(f"work of the {what}", ceiling.work_unit, ceiling.work, file)
        if ceiling.instrument is not None:
            shortest = exact(f"shortest time of the {what}", "s", min(ceiling.samples), file)
            return work / shortest
        process = Process(file, f"ceiling {what}", tuple(map(float, ceiling.samples)))
        return work / self.of_processes(f"time of the {what}", "s", [process])
