"""The ceilings of a device: its best measured rates of arithmetic and of memory.

A ceiling is the best rate of several instruments, since no instrument is best on every processor.
Bandwidth is measured with working sets larger than the caches.  Old records state neither
instruments nor working sets.  Their matrix products measured arithmetic, and their copies memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from report.core.records.record import Ceiling
from report.core.records.store import Stored
from report.evidence.cached import cached
from report.instruments.gates import CEILING_UNITS, FLOAT32, bounding_ceilings
from report.quantity.expression import (
    Leaf,
    Quantity,
    exact_number,
    measured_series,
    missing_number,
    named,
)
from report.quantity.intervals import Process
from report.quantity.operations import largest

#: Operation → name of the ceiling if several operations were measured.
_COMMON_NAMES: Final = {"matrix_product": "arithmetic", "copy": "memory bandwidth"}


def _ceiling_name(ceiling: Ceiling) -> str:
    """Name a ceiling in formulas, uniquely within a record."""
    name = f"{ceiling.operation.replace('_', ' ')} {ceiling.size}"
    if ceiling.instrument is None:
        return f"{name}, {ceiling.moment}"
    return f"{name} by {ceiling.instrument} in {ceiling.dtype}, {ceiling.moment}"


def format_bytes(size: float) -> str:
    """Format a size (B) with a binary prefix up to Gi, such as ``512 MiB``."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


@dataclass(frozen=True)
class MeasuredDevice:
    """The device of a record, and its ceilings from the record's run and the runs pooled with it.

    ``label`` is the name of the device for readers.
    """

    stored: Stored
    label: str

    def series_from(self, name: str, unit: str, processes: Sequence[Process]) -> Leaf:
        """Return a series from at least one process on this device; the runs are its sources."""
        first, *further = dict.fromkeys(process.run for process in processes)
        return measured_series(name, unit, processes, first, tuple(further))

    @cached
    def peak_rate(self, operation: str, dtype: str = FLOAT32) -> Quantity:
        """Return the measured ceiling of an operation in FLOP/s, B/s or pages a second.

        If no ceiling was measured, a missing number with the reason is returned.  The ceiling is
        the best rate of all instruments and sizes, before and after the cases; only for
        ``page_mapping`` it is the median rate.  ``copy`` includes all memory transfers, and on a
        CPU ``matrix_product`` includes all arithmetic in ``dtype``.
        """
        ceilings: list[tuple[str, Ceiling]] = []
        for run in self.stored.runs:
            for ceiling in bounding_ceilings(run.record, operation, dtype):
                ceilings.append((run.file, ceiling))
        if not ceilings:
            name = f"ceiling of the {operation.replace('_', ' ')}"
            reason = self._reason_without_ceiling(operation, dtype)
            return missing_number(name, CEILING_UNITS[operation], reason)
        if operation == "page_mapping":
            return self._page_mapping_rate(ceilings)
        name = operation.replace("_", " ")
        if {ceiling.operation for _, ceiling in ceilings} != {operation}:
            name = _COMMON_NAMES[operation]
        rates = [self._ceiling_rate(file, ceiling) for file, ceiling in ceilings]
        return named(f"ceiling of the {name}", largest(*rates))

    def _page_mapping_rate(self, ceilings: Sequence[tuple[str, Ceiling]]) -> Quantity:
        """Return the median rate of mapping pages (1/s): the usual rate, not a limit.

        All series of one run count as one process.  With several runs, each series is a process.
        """
        file, first = ceilings[0]
        name = _ceiling_name(first)
        processes = [_as_process(run, ceiling.moment, ceiling) for run, ceiling in ceilings]
        runs = {run for run, _ in ceilings}
        if len(runs) == 1:
            samples = chain.from_iterable(process.samples for process in processes)
            processes = [Process(file, name, tuple(samples))]
        work = exact_number(f"work of the {name}", first.work_unit, first.work, file)
        return work / self.series_from(f"time of the {name}", "s", processes)

    def _reason_without_ceiling(self, operation: str, dtype: str) -> str:
        """Explain why the device has no ceiling of an operation."""
        ceilings = self.stored.record.ceilings
        operations = {ceiling.operation for ceiling in ceilings if ceiling.samples}
        if operation in operations and dtype == FLOAT32:
            return f"no working set beyond the caches was measured on {self.label}"
        precision = "" if dtype == FLOAT32 else f" in {dtype}"
        return f"no ceiling{precision} was measured on {self.label}"

    def _ceiling_rate(self, file: str, ceiling: Ceiling) -> Quantity:
        """Divide work by the shortest time if an instrument is named, else by the median time.

        STREAM also reports the shortest time (McCalpin 1995).  Other runs on the machine need not
        reproduce the shortest time, so it counts as an exact number of this record.
        """
        name = _ceiling_name(ceiling)
        work = exact_number(f"work of the {name}", ceiling.work_unit, ceiling.work, file)
        if ceiling.instrument is not None:
            shortest = exact_number(f"shortest time of the {name}", "s", min(ceiling.samples), file)
            return work / shortest
        process = _as_process(file, f"ceiling {name}", ceiling)
        return work / self.series_from(f"time of the {name}", "s", [process])


def _as_process(run: str, name: str, ceiling: Ceiling) -> Process:
    """Return the times of a ceiling as the samples of one process in the run ``run``."""
    return Process(run, name, tuple(float(sample) for sample in ceiling.samples))
