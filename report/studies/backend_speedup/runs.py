"""Measurements of one run: iterations by size and library, and their ratios.

Few processes timed a case of the GPU, so that its times and ratios have a range instead of a
confidence interval: over all processes, or all pairs of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, product
from statistics import median
from typing import Final

import msgspec

from report.core.missing import Missing
from report.core.records.record import Level
from report.core.records.strict import parse_json
from report.core.statistics.estimates import Estimate
from report.core.text.escape import markdown
from report.evidence import runs as any_study
from report.evidence.runs import CaseFactors
from report.quantity.evaluation import to_digits
from report.quantity.expression import Inferred, Quantity, absent
from report.quantity.units import unit
from report.studies.backend_speedup.subject import DOUBLE, FLAT, NAMES, NONE, SOURCE, Size

#: The time of the matrix products of an iteration, as records name it.
PRODUCTS: Final = "matrix_product_time"


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study; ``sessions`` are others on the same models of GPU and host."""

    sessions: tuple[Run, ...] = field(default=(), kw_only=True)

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that were timed, by their work."""
        sizes = set()
        for case in self.stored.record.cases:
            factors = case.factors
            if _is_meant(factors, "scaling"):
                sizes.add(Size(int(factors.get("hidden", 10)), int(factors["samples"])))
        return tuple(sorted(sizes, key=lambda size: (size.multiply_adds, size)))

    @property
    def small_sizes(self) -> tuple[Size, ...]:
        """The sizes at which CuPy's time hardly grows, the least work first."""
        return tuple(size for size in self.sizes if size.multiply_adds <= FLAT.multiply_adds)

    def with_subject(self, subject: str) -> Run | None:
        """Return this run if a case has the subject."""
        subjects = (case.factors.get("subject") for case in self.stored.record.cases)
        return self if subject in subjects else None

    def factors(self, size: Size | None, library: str, subject: str = "scaling") -> CaseFactors:
        """The factors of a case as the record names them; of any size where none is given."""
        wanted: dict[str, Level] = {"backend": library}
        if size is not None:
            wanted |= {"hidden": size.hidden, "samples": size.images}
        for case in self.stored.record.cases:
            if _is_meant(case.factors, subject) and wanted.items() <= case.factors.items():
                return case.factors
        return {"subject": subject, "dtype": "float32", **wanted}

    def measured(self, quantity: str, size: Size, library: str) -> Quantity:
        """A quantity of a case over all processes."""
        return self.series(quantity, self.factors(size, library))

    def time(self, size: Size, library: str) -> Quantity:
        """The time (s) of an iteration."""
        return self.measured("time", size, library)

    def page_faults(self, size: Size) -> Quantity:
        """The page faults of NumPy in an iteration, to two digits."""
        return to_digits(self.measured("page_faults", size, "numpy"), 2)

    def changed(self, quantity: str, size: Size, change: str = NONE) -> Quantity:
        """A quantity of NumPy's iteration with a single change on a CPU."""
        dtype = "float64" if change == DOUBLE else "float32"
        return self._varied(quantity, size, "numpy", subject="change", dtype=dtype, change=change)

    def with_calls(self, library: str, calls: int, size: Size, quantity: str = "time") -> Quantity:
        """Time (s) of an iteration with ``calls`` library calls.

        The ``quantity`` ``baseline_time`` is the unchanged iteration in turn with it.
        """
        return self._varied(quantity, size, library, subject="calls", dtype="float32", calls=calls)

    def _varied(self, quantity: str, size: Size, library: str, **varied: Level) -> Quantity:
        case = {"dataset": "digits", "hidden": size.hidden, "samples": size.images, **varied}
        return self.series(quantity, {**case, "backend": library})

    # ------------------------------------------------------------------------------------ ranges

    def medians(self, quantity: str, size: Size, library: str) -> list[float]:
        """The median of each process; empty if none measured the quantity."""
        processes = self.by_process(quantity, self.factors(size, library))
        return [] if isinstance(processes, Missing) else [p.median for p in processes]

    def ranged(
        self,
        name: str,
        compute: Callable[..., float],
        *series: Sequence[float],
        unit_name: str = "1",
    ) -> Quantity:
        """Compute a number from medians of ``series``, with the range over all combinations.

        The range is no confidence interval.  One more case exceeds the largest of n with a chance
        of 1 / (n + 1), which stands for the level; n counts the cases that two processes timed.
        """
        if not all(series):
            return absent(name, unit_name, f"not timed on {self.label}")
        values = [compute(*numbers) for numbers in product(*series)]
        middle, cases = compute(*map(median, series)), self._repeated_cases

        def interval(confidence: float) -> Estimate:
            level = min(confidence, cases / (cases + 1))
            return Estimate(middle, min(values), max(values), cases, level)

        further = tuple(run.file for run in self.sessions)
        return Inferred(unit(unit_name), name, self.file, interval=interval, further=further)

    @cached_property
    def _repeated_cases(self) -> int:
        """The number of cases that two processes timed, in one session or in two."""
        count = 0
        for case in product(self.sizes, NAMES):
            times = [run.medians("time", *case) for run in (self, *self.sessions)]
            count += len([*chain(*times)]) > 1
        return count

    def in_session(self, session: int, size: Size, library: str) -> list[float]:
        """The times of an iteration by process, in this session (0) or another."""
        runs = (self, *self.sessions)
        return runs[session].medians("time", size, library) if session < len(runs) else []

    def spread(self, session: int, library: str) -> Quantity:
        """The time (s) of an iteration at the source's size, with its range over processes."""
        times = self.in_session(session, SOURCE, library)
        return self.ranged(f"time of {NAMES[library]}({SOURCE})", float, times, unit_name="s")


def _is_meant(factors: CaseFactors, subject: str) -> bool:
    """Tell if a case is of the subject in float32, on the perceptron without a compiler."""
    fixed = {"network": "perceptron", "execution": "eager"}
    wanted = {"subject": subject, "dtype": "float32", **fixed}
    return {**fixed, **factors}.items() >= wanted.items()


class _Library(msgspec.Struct):
    """A library as the file beside a record describes it."""

    name: str
    version: str
    matrix_products: str = ""


def library_versions(run: Run, attachments: Mapping[str, bytes | Missing]) -> str:
    """The libraries of a run with their versions; raises ``RecordError`` for a file of others."""
    versions = []
    for name, content in sorted(attachments.items()):
        if isinstance(content, Missing):
            versions.append(f"unknown, since {content.reason}")
            continue
        place = f"data/{run.file}: {name}"
        library = parse_json(content, _Library, place, "run the experiment again")
        blas = f" ({library.matrix_products})" if library.matrix_products else ""
        versions.append(f"{NAMES.get(library.name, library.name)} {library.version}{blas}")
    return markdown(", ".join(versions))
