"""Measurements of one run: iterations, by size and library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final

from report.core.missing import Missing
from report.core.records.record import Factor
from report.core.statistics.estimates import Estimate
from report.evidence import runs as any_study
from report.evidence.runs import Factors
from report.quantity.evaluation import point
from report.quantity.expression import Inferred, Quantity, Sampled, absent, exact
from report.studies.backend_speedup import theory
from report.studies.backend_speedup.subject import NAMES, SMALL, WIDEST, Size

#: Up to this growth over its smallest time a GPU is at its floor.
AT_FLOOR: Final = 1.25


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that were timed, by their work."""
        sizes = {
            Size(int(case.factors.get("hidden", 10)), int(case.factors["samples"]))
            for case in self.stored.record.cases
            if self._is_meant(case.factors, "scaling", "float32")
        }
        return tuple(sorted(sizes, key=lambda size: (size.multiply_adds, size)))

    def _is_meant(self, factors: Factors, subject: str, dtype: str) -> bool:
        wanted = {"subject": subject, "dtype": dtype}
        older = {"network": "perceptron", "execution": "eager"}
        return wanted.items() <= {**older, **factors}.items() and all(
            factors.get(name, level) == level for name, level in older.items()
        )

    def number_of(self, attribute: str) -> Quantity:
        """Count the items of an attribute, such as ``sizes``."""
        return exact("sizes", "1", len(getattr(self, attribute)), self.file)

    @cached_property
    def libraries(self) -> tuple[str, ...]:
        """The libraries that were timed at any size."""
        timed = []
        for library in NAMES:
            if not all(self.time(size, library).missing for size in self.sizes):
                timed.append(library)
        return tuple(timed)

    def factors(
        self, size: Size | None, library: str, dtype: str = "float32", subject: str = "scaling"
    ) -> Factors:
        """The factors of a case as the record names them; of any size where none is given."""
        wanted: dict[str, Factor] = {"backend": library}
        if size is not None:
            wanted |= {"hidden": size.hidden, "samples": size.images}
        for case in self.stored.record.cases:
            if self._is_meant(case.factors, subject, dtype) and (
                wanted.items() <= case.factors.items()
            ):
                return case.factors
        return {"subject": subject, "dtype": dtype, **wanted}

    def measured(self, quantity: str, size: Size, library: str, dtype: str = "float32") -> Quantity:
        """A quantity of a case over all processes."""
        return self.series(quantity, self.factors(size, library, dtype))

    def time(self, size: Size, library: str, dtype: str = "float32") -> Quantity:
        """The time (s) of an iteration."""
        return self.measured("time", size, library, dtype)

    def speedup(self, size: Size, library: str, quantity: str = "time") -> Quantity:
        """How many times as fast as NumPy on the same machine, process by process."""
        slow, fast = (self.measured(quantity, size, name) for name in ("numpy", library))
        return slow / fast

    def gain(self, size: Size) -> Quantity:
        """CuPy's speed-up over NumPy on the same machine, with the error of its times."""
        return self.bounded(self.speedup(size, "cupy"))

    def gain_over(self, cpu: Run, size: Size) -> Quantity:
        """CuPy's speed-up over NumPy on another machine, with the error of its times."""
        return self.bounded(cpu.time(size, "numpy") / self.time(size, "cupy"))

    def rate(self, library: str) -> Quantity:
        """The rate of whole iterations at the widest size (FLOP/s)."""
        return theory.work(WIDEST) / self.time(WIDEST, library)

    def floor_time(self) -> Quantity:
        """The time (s) of CuPy's iteration with the least work."""
        return self.time(SMALL, "cupy")

    @property
    def at_floor(self) -> dict[Size, float]:
        """CuPy's time over its floor, at the sizes where it is hardly longer."""
        times = {size: point(self.time(size, "cupy") / self.floor_time()) for size in self.sizes}
        return {size: t for size, t in times.items() if isinstance(t, float) and t <= AT_FLOOR}

    @property
    def model(self) -> tuple[float, float] | None:
        """CuPy's floor (s) and its rate (FLOP/s) at the largest work; None where one is missing."""
        floor, rate = point(self.floor_time()), point(self.rate("cupy"))
        if isinstance(floor, Missing) or isinstance(rate, Missing):
            return None
        return floor, rate

    def product_rate(self, size: Size, library: str) -> Quantity:
        """FLOP/s of the first layer's product alone."""
        return theory.first_product(size) / self.measured("product_alone_time", size, library)

    def of_training(self, quantity: str, library: str) -> tuple[float, ...]:
        """Samples of a training; empty without one."""
        samples = self.samples(quantity, self.factors(None, library, subject="training"))
        return () if isinstance(samples, Missing) else tuple(map(float, samples))

    def spread(
        self, quantities: Sequence[str] = ("time",), libraries: Sequence[str] = tuple(NAMES)
    ) -> tuple[float, int] | None:
        """Largest ratio of two processes of one case and the number of pairs, or None."""
        ratios = []
        for quantity, size, library in product(quantities, self.sizes, libraries):
            processes = self.by_process(quantity, self.factors(size, library))
            if isinstance(processes, Missing):
                continue
            medians = [process.median for process in processes]
            if len(medians) > 1 and min(medians) > 0:
                ratios.append(max(medians) / min(medians))
        return (max(ratios), len(ratios)) if ratios else None

    @cached_property
    def _spread_of_times(self) -> tuple[float, int] | None:
        return self.spread()

    def bounded(self, quantity: Quantity) -> Quantity:
        """A ratio of times of few processes with an interval from all pairs of them.

        One more pair exceeds the largest of n with a chance of 1 / (n + 1).  Two processes within
        that factor lie within its root of their middle, which is the error of each time in
        ``quantity``.
        """
        name, unit, value = quantity.formula, quantity.unit, point(quantity)
        spread = self._spread_of_times
        if isinstance(value, Missing):
            return absent(name, str(unit), value.reason)
        if spread is None:
            return absent(name, str(unit), f"no case has two processes on {self.label}")
        times = sum(isinstance(leaf, Sampled) for leaf in quantity.leaves)
        largest, pairs = spread
        factor = largest ** (times / 2)

        def interval(confidence: float) -> Estimate:
            level = min(confidence, pairs / (pairs + 1))
            return Estimate(value, value / factor, value * factor, pairs, level)

        file, *further = quantity.sources
        return Inferred(unit, name, file, interval=interval, further=tuple(further))
