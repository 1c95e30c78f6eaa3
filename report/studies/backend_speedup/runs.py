"""Measurements of one run: iterations by size and library, and their ratios.

Few processes timed a case of the GPU, so its ratios are printed with their range over all pairs of
processes, without a level.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from statistics import median
from typing import Final

import msgspec

from report.core.missing import Missing
from report.core.records.record import Level
from report.core.records.strict import parse_json
from report.core.statistics.estimates import Estimate, bonferroni, median_interval
from report.core.text.escape import markdown
from report.evidence import runs as any_study
from report.evidence.runs import CaseFactors
from report.instruments.gates import FLOAT32, bounding_ceilings, rate
from report.quantity.expression import Inferred, Quantity, absent, recorded
from report.quantity.units import unit
from report.studies.backend_speedup.subject import DOUBLE, NAMES, NONE, Size

#: The time of the matrix products of an iteration, as records name it.
PRODUCTS: Final = "matrix_product_time"


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """Sizes that were timed, in the order of their work."""
        sizes = set()
        for factors in (case.factors for case in self.stored.record.cases):
            if _is_case_of(factors, "scaling"):
                sizes.add(Size(int(factors.get("hidden", 10)), int(factors["samples"])))
        return tuple(sorted(sizes, key=lambda size: (size.multiply_adds, size)))

    @property
    def conditions(self) -> str:
        """Conditions of compared cases with a change; empty for a run without changes."""
        changed = any(case.factors.get("change") for case in self.stored.record.cases)
        return "1 or 2 threads" if changed else ""

    def factors(self, size: Size | None, library: str, subject: str = "scaling") -> CaseFactors:
        """Return the recorded factors of a library's case, of any size if ``size`` is None."""
        wanted: dict[str, Level] = {"backend": library}
        if size is not None:
            wanted |= {"hidden": size.hidden, "samples": size.images}
        for case in self.stored.record.cases:
            if _is_case_of(case.factors, subject) and wanted.items() <= case.factors.items():
                return case.factors
        return {"subject": subject, "dtype": "float32", **wanted}

    def measured(self, quantity: str, size: Size, library: str) -> Quantity:
        """A quantity of a case over all processes."""
        return self.series(quantity, self.factors(size, library))

    def medians(self, quantity: str, size: Size, library: str) -> list[float]:
        """The medians of the processes that timed a library at a size."""
        return self.process_medians(quantity, self.factors(size, library))

    def changed(self, quantity: str, size: Size, change: str = NONE) -> Quantity:
        """On a CPU, a quantity of NumPy's iteration with one ``change``."""
        return self.series(quantity, changed_case(size, change))

    def of_numpy(self, size: Size, change: str = NONE, of: str = "scaling") -> CaseFactors:
        """Return NumPy's factors with ``change``; runs without changes vary only the precision."""
        if self.conditions:
            return changed_case(size, change)
        dtype = "float64" if change == DOUBLE else "float32"
        return {**self.factors(size, "numpy", of), "dtype": dtype}

    def with_calls(self, quantity: str, size: Size, calls: int) -> Quantity:
        """PyTorch's ``time`` (s) with ``calls`` library calls, or ``baseline_time`` with all 31."""
        factors = _varied(size, backend="torch", subject="calls", dtype="float32", calls=calls)
        return self.series(quantity, factors)

    def parts(self, size: Size, change: str = NONE) -> tuple[Quantity, Quantity]:
        """Times (s) of the first layer's product, called alone, and of the rest of an iteration."""
        case = self.of_numpy(size, change)
        product, both = (self.series(quantity, case) for quantity in ("product_alone_time", "time"))
        return product, both - product

    @property
    def product_rate(self) -> Quantity:
        """The best measured rate (FLOP/s) of a matrix product; a convolution may be faster."""
        ceilings = bounding_ceilings(self.stored.record, "matrix_product", FLOAT32)
        rates = [rate(ceiling) for ceiling in ceilings if ceiling.operation == "matrix_product"]
        best = max(rates) if rates else Missing(f"no product was timed on {self.label}")
        return recorded("best rate of a matrix product", "FLOP/s", best, self.file)

    def process_medians(self, quantity: str, factors: CaseFactors) -> list[float]:
        """The medians of the processes that timed a case; empty if it was not measured."""
        processes = self.by_process(quantity, factors)
        return [] if isinstance(processes, Missing) else [p.median for p in processes]


def ranged(
    runs: tuple[Run, ...], name: str, compute: Callable[..., float], *series: Sequence[float]
) -> Quantity:
    """Compute a ratio from medians of ``series`` of runs, monotone in each of them.

    Its bounds combine the ends of the intervals of all series, whose levels are lowered to hold
    together (Bonferroni).  Few processes have a low level, so that their range decides no claim.
    """
    if not all(series):
        return absent(name, "1", f"not timed in this run on {runs[0].label}")
    middle = compute(*map(median, series))

    def interval(confidence: float) -> Estimate:
        sides = [median_interval(side, bonferroni(confidence, len(series))) for side in series]
        ends = [(side.low, side.high) for side in sides]
        values = [compute(*corner) for corner in product(*ends)]
        level = max(0.0, 1 - sum(1 - side.confidence for side in sides))
        return Estimate(middle, min(values), max(values), 0, min(level, confidence))

    further = tuple(run.file for run in runs[1:] if run.file != runs[0].file)
    return Inferred(unit("1"), name, runs[0].file, interval=interval, further=further)


def changed_case(size: Size, change: str) -> CaseFactors:
    """Return the factors of NumPy's iteration with a single change on a CPU."""
    dtype = "float64" if change == DOUBLE else "float32"
    return _varied(size, backend="numpy", subject="change", dtype=dtype, change=change)


def _varied(size: Size, **varied: Level) -> CaseFactors:
    return {"dataset": "digits", "hidden": size.hidden, "samples": size.images, **varied}


def _is_case_of(factors: CaseFactors, subject: str) -> bool:
    """Tell if a case has the subject, and is a perceptron in float32 without a compiler."""
    fixed = {"network": "perceptron", "execution": "eager"}
    wanted = {"subject": subject, "dtype": "float32", **fixed}
    return {**fixed, **factors}.items() >= wanted.items()


class _Library(msgspec.Struct):
    """A library as the file beside a record describes it."""

    name: str
    version: str
    matrix_products: str = ""


def library_versions(run: Run, attachments: Mapping[str, bytes | Missing]) -> str:
    """List a run's libraries with versions; raises ``RecordError`` for a malformed attachment."""
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
