"""Measurements of one run: iterations by size and library, and their ratios.

Words of the paper:
- iteration: one training step on all images (forward pass, backward pass, update), which makes
  31 calls of library functions;
- size: numbers of hidden neurons and of images;
- change: one setting, such as a second thread, that differs from NumPy's usual iteration;
- gain: speed-up, which is NumPy's time divided by another library's time;
- session: one run on a GPU and its host.
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
from report.evidence.cached import cached
from report.evidence.runs import CaseFactors
from report.instruments.gates import FLOAT32, bounding_ceilings, ceiling_rate
from report.quantity.expression import (
    EstimatedNumber,
    MeasuredSeries,
    Quantity,
    missing_number,
    recorded_number,
)
from report.quantity.units import unit
from report.studies.backend_speedup.subject import (
    DOUBLE_PRECISION,
    HIDDEN,
    LIBRARIES,
    UNCHANGED,
    Size,
)

#: The time of the matrix products of an iteration, as records name it.
PRODUCT_TIME: Final = "matrix_product_time"


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """Sizes that were timed, with increasing work."""
        sizes = set()
        for case in self.stored.record.cases:
            factors = case.factors
            if _is_case_of(factors, "scaling"):
                sizes.add(Size(int(factors.get("hidden", HIDDEN)), int(factors["samples"])))
        return tuple(sorted(sizes, key=lambda size: (size.multiply_adds, size)))

    @cached_property
    def has_changes(self) -> bool:
        """True if the run measured changes to NumPy's iteration, such as a second thread."""
        return any(case.factors.get("change") for case in self.stored.record.cases)

    @property
    def conditions(self) -> str:
        """The numbers of threads, as text, if the run measured changes; else empty."""
        return "1 or 2 threads" if self.has_changes else ""

    @cached
    def factors(self, size: Size | None, library: str, subject: str = "scaling") -> CaseFactors:
        """Return the factors of a library's first recorded case, of any size if ``size`` is None.

        Without such a case, returns only the required factors, which match no case.
        """
        required: dict[str, Level] = {"backend": library}
        if size is not None:
            required |= {"hidden": size.hidden, "samples": size.images}
        for case in self.stored.record.cases:
            if _is_case_of(case.factors, subject) and required.items() <= case.factors.items():
                return case.factors
        return {"subject": subject, "dtype": "float32", **required}

    def measured(self, quantity: str, size: Size, library: str) -> Quantity:
        """Return a quantity of a library's unchanged iteration, from samples of all processes."""
        return self.series(quantity, self.factors(size, library))

    def medians(self, quantity: str, size: Size, library: str) -> list[float]:
        """Return one median per process of a quantity of a library's unchanged iteration."""
        return self.process_medians(quantity, self.factors(size, library))

    def numpy_with(self, quantity: str, size: Size, change: str = UNCHANGED) -> Quantity:
        """Return a quantity of NumPy's iteration on a CPU with one ``change``."""
        return self.series(quantity, changed_factors(size, change))

    def numpy_factors(
        self, size: Size, change: str = UNCHANGED, subject: str = "scaling"
    ) -> CaseFactors:
        """Return factors of NumPy's case; in a run without changes, ``change`` sets the dtype."""
        changed = changed_factors(size, change)
        if self.has_changes:
            return changed
        return {**self.factors(size, "numpy", subject), "dtype": changed["dtype"]}

    def torch_series(self, quantity: str, size: Size, calls: int) -> Quantity:
        """Return the ``time`` (s) in ``calls`` library calls, or the ``baseline_time`` in 31."""
        factors = _case(size, backend="torch", subject="calls", dtype="float32", calls=calls)
        return self.series(quantity, factors)

    def product_and_rest(self, size: Size, change: str = UNCHANGED) -> tuple[Quantity, Quantity]:
        """Return the time (s) of the first layer's product, and of all other steps together."""
        case = self.numpy_factors(size, change)
        product = self.series("product_alone_time", case)
        return product, self.series("time", case) - product

    @property
    def product_rate(self) -> Quantity:
        """The best measured rate (FLOP/s) of a matrix product in float32."""
        ceilings = bounding_ceilings(self.stored.record, "matrix_product", FLOAT32)
        products = (ceiling for ceiling in ceilings if ceiling.operation == "matrix_product")
        rates = [*map(ceiling_rate, products)]
        best = max(rates) if rates else Missing(f"no product was timed on {self.label}")
        return recorded_number("best rate of a matrix product", "FLOP/s", best, self.file)

    def process_medians(self, quantity: str, factors: CaseFactors) -> list[float]:
        """Return one median per process that measured a case; empty if no process did."""
        series = self.series(quantity, factors)
        return [p.median for p in series.processes] if isinstance(series, MeasuredSeries) else []


def ratio_with_range(
    runs: tuple[Run, ...], name: str, compute: Callable[..., float], *series: Sequence[float]
) -> Quantity:
    """Compute a ratio from the medians of several ``series`` of values, one per process.

    ``compute`` must be monotone in each argument.  Each series gets an interval, at a level such
    that all intervals hold together (Bonferroni); the ratio's bounds follow from these intervals.
    Few processes, as on the GPU, allow only a low level, so that claims remain undecided.
    """
    if not all(series):
        return missing_number(name, "1", f"not timed in this run on {runs[0].label}")
    value = compute(*map(median, series))

    def interval(confidence: float) -> Estimate:
        level_of_each = bonferroni(confidence, len(series))
        estimates = [median_interval(medians, level_of_each) for medians in series]
        ends = [(estimate.low, estimate.high) for estimate in estimates]
        ratios = [compute(*corner) for corner in product(*ends)]
        level = max(0.0, 1 - sum(1 - estimate.confidence for estimate in estimates))
        confidence = min(level, confidence)
        # Without a number of samples (n=0) papers print the range without its level.
        return Estimate(value, min(ratios), max(ratios), n=0, confidence=confidence)

    other_files = tuple(run.file for run in runs[1:] if run.file != runs[0].file)
    return EstimatedNumber(
        unit("1"), name, runs[0].file, interval=interval, other_files=other_files
    )


def changed_factors(size: Size, change: str) -> CaseFactors:
    """Return the factors of NumPy's iteration with a single change on a CPU."""
    dtype = "float64" if change == DOUBLE_PRECISION else "float32"
    return _case(size, backend="numpy", subject="change", dtype=dtype, change=change)


def _case(size: Size, **further: Level) -> CaseFactors:
    """Return the factors of a case on scikit-learn's digits at a size, with ``further`` factors."""
    return {"dataset": "digits", "hidden": size.hidden, "samples": size.images, **further}


def _is_case_of(factors: CaseFactors, subject: str) -> bool:
    """Return whether a case has the subject, and is a perceptron in float32 without a compiler."""
    defaults = {"network": "perceptron", "execution": "eager"}
    required = {"subject": subject, "dtype": "float32", **defaults}
    return {**defaults, **factors}.items() >= required.items()


class _Library(msgspec.Struct):
    """A library as described in an attachment of a record."""

    name: str
    version: str
    matrix_products: str = ""  # library that multiplies matrices, such as OpenBLAS


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
        versions.append(f"{LIBRARIES.get(library.name, library.name)} {library.version}{blas}")
    return markdown(", ".join(versions))
