"""Measurements of one run: iterations, by size and library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, product
from typing import Final, NamedTuple

from report.core.missing import Missing
from report.core.records.record import Level
from report.core.statistics.estimates import Estimate
from report.evidence import runs as any_study
from report.evidence.runs import CaseFactors
from report.quantity.evaluation import point
from report.quantity.expression import Inferred, Quantity, absent, exact
from report.studies.backend_speedup.subject import CALLS, NAMES, SMALL, SOURCE, Size

#: The time of the matrix products of an iteration, as records name it.
PRODUCTS: Final = "matrix_product_time"
#: Up to this growth over its smallest time a GPU is at its floor.
AT_FLOOR: Final = 1.25


class Spread(NamedTuple):
    """Largest ratio of two measurements of one case, over ``cases``."""

    factor: float
    cases: int


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
            if self._is_meant(factors, "scaling", "float32"):
                sizes.add(Size(int(factors.get("hidden", 10)), int(factors["samples"])))
        return tuple(sorted(sizes, key=lambda size: (size.multiply_adds, size)))

    def _is_meant(self, factors: CaseFactors, subject: str, dtype: str) -> bool:
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
    ) -> CaseFactors:
        """The factors of a case as the record names them; of any size where none is given."""
        wanted: dict[str, Level] = {"backend": library}
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
        """Speed-up over NumPy on the same machine, paired by process."""
        slow, fast = (self.measured(quantity, size, name) for name in ("numpy", library))
        return slow / fast

    def gain(self, size: Size, library: str = "cupy") -> Quantity:
        """A library's speed-up with an interval from all sessions.

        The interval holds all pairs of processes if several sessions timed the size; else it
        allows for the largest change that sessions made at another size.
        """
        sessions = [*filter(None, self._gains(size, library))]
        if len(sessions) > 1:
            return self.spanning(self.speedup(size, library), [g for s in sessions for g in s])
        return self.bounded(self.speedup(size, library), self.spread_of_gains)

    def gain_in(self, library: str, session: int = 0) -> Quantity:
        """A library's speed-up at the source's size in this session or another one.

        It is the median over processes of one number, with the range over all pairs of processes.
        """
        run = (self, *self.sessions)[session : session + 1]
        if not run:
            return absent("speed-up", "1", "no other session is in the data")
        return self.spanning(run[0].speedup(SOURCE, library), run[0].gains(SOURCE, library))

    def over_earlier(self, library: str) -> Quantity:
        """Divide a library's speed-up at the source's size in the earlier session by ours."""
        ratio = self.gain_in(library, session=1) / self.gain_in(library)
        gains = [session.gains(SOURCE, library) for session in (*self.sessions[:1], self)]
        return self.spanning(ratio, [a / b for a, b in product(*gains)] if gains[1:] else ())

    def longer_in_earlier(self, library: str, quantity: str = "time") -> Quantity:
        """Divide a time at the source's size in the earlier session by ours."""
        if not self.sessions:
            return absent("time over ours", "1", "no other session is in the data")
        earlier = self.sessions[0].measured(quantity, SOURCE, library)
        return earlier / self.measured(quantity, SOURCE, library)

    def between_libraries(self) -> Quantity:
        """Divide CuPy's time at the source's size by PyTorch's, in this session."""
        slow, fast = (self.medians("time", SOURCE, name) for name in ("cupy", "torch_cuda"))
        ratio = self.time(SOURCE, "cupy") / self.time(SOURCE, "torch_cuda")
        return self.spanning(ratio, [a / b for a, b in product(slow, fast)])

    def gains(self, size: Size, library: str) -> list[float]:
        """The speed-ups of all pairs of processes of this session; empty if none was timed."""
        slow, fast = (self.medians("time", size, name) for name in ("numpy", library))
        return [a / b for a, b in product(slow, fast)]

    def _gains(self, size: Size, library: str) -> list[list[float]]:
        return [run.gains(size, library) for run in (self, *self.sessions)]

    def medians(self, quantity: str, size: Size, library: str) -> list[float]:
        """The median of each process; empty if none measured the quantity."""
        processes = self.by_process(quantity, self.factors(size, library))
        return [] if isinstance(processes, Missing) else [p.median for p in processes]

    @cached_property
    def spread_of_gains(self) -> Spread | None:
        """Largest ratio of two speed-ups at one size, over all sessions."""
        cases = product(self.sizes, [name for name in self.libraries if name != "numpy"])
        return _spread([*chain.from_iterable(self._gains(*case))] for case in cases)

    def spread(
        self, quantities: Sequence[str] = ("time",), libraries: Sequence[str] = tuple(NAMES)
    ) -> Spread | None:
        """Largest ratio of two processes of one case, over all sessions."""
        cases = product(quantities, self.sizes, libraries)
        return _spread(self._all_medians(*case) for case in cases)

    def _all_medians(self, quantity: str, size: Size, library: str) -> list[float]:
        medians: list[float] = []
        for run in (self, *self.sessions):
            medians += run.medians(quantity, size, library)
        return medians

    def bounded(self, quantity: Quantity, spread: Spread | None, power: int = 1) -> Quantity:
        """A ratio with an allowance: it may be wrong by a spread, or by a power of it."""
        value = point(quantity)
        if spread is None or isinstance(value, Missing):
            return self.spanning(quantity, ())
        factor = spread.factor**power
        return self.spanning(quantity, (value / factor, value * factor), spread.cases)

    def spanning(self, quantity: Quantity, values: Sequence[float], cases: int = 0) -> Quantity:
        """A quantity with the range of ``values``, an allowance of ``cases`` and no confidence.

        One more case exceeds the largest of n with a chance of 1 / (n + 1), which stands for the
        level; by default n counts the cases that two processes timed.
        """
        name, unit, value = quantity.formula, quantity.unit, point(quantity)
        if isinstance(value, Missing):
            return absent(name, str(unit), value.reason)
        counted = Spread(1, cases) if cases else self.spread()
        if counted is None or not values:
            return absent(name, str(unit), f"no case has two processes on {self.label}")
        low, high, number = min(value, *values), max(value, *values), counted.cases

        def interval(confidence: float) -> Estimate:
            return Estimate(value, low, high, number, min(confidence, number / (number + 1)))

        file, *further = quantity.sources
        return Inferred(unit, name, file, interval=interval, further=tuple(further))

    def floor_time(self, library: str = "cupy") -> Quantity:
        """The time (s) of an iteration with the least work."""
        return self.time(SMALL, library)

    def growth(self, quantity: str, library: str) -> Quantity:
        """Added time (s) from the least work to the source's size."""
        more, less = (self.measured(quantity, size, library) for size in (SOURCE, SMALL))
        return more - less

    def busy(self, library: str) -> Quantity:
        """Least share of the source's iteration in which the GPU computes its products.

        It is the growth of their time since the least work, so that no cost of a call is in it.
        """
        grown = self.growth(PRODUCTS, library) / self.time(SOURCE, library)
        products = (self.medians(PRODUCTS, size, library) for size in (SOURCE, SMALL))
        times = self.medians("time", SOURCE, library)
        return self.spanning(grown, [(a - b) / t for a, b, t in product(*products, times)])

    def busy_most(self, library: str) -> Quantity:
        """Divide the time of the products, less a wait for each, by the source's iteration."""
        return self.products_time(SOURCE, library) / self.time(SOURCE, library)

    def idle(self, library: str) -> Quantity:
        """Least share of the smallest iteration in which the GPU has nothing to do.

        The products' time at the source's size beyond their time at the smallest one, less the
        iteration's own growth, fits into gaps of the smallest iteration.
        """
        added = self.growth(PRODUCTS, library) - self.growth("time", library)
        products = self.medians(PRODUCTS, SOURCE, library), self.medians(PRODUCTS, SMALL, library)
        times = self.medians("time", SOURCE, library), self.medians("time", SMALL, library)
        shares = []
        for most, least, longer, floor in product(*products, *times):
            shares.append((most - least - longer + floor) / floor)
        return self.spanning(added / self.floor_time(library), shares)

    @property
    def at_floor(self) -> dict[Size, float]:
        """CuPy's time over its floor, at the sizes where it is hardly longer."""
        times = {}
        for size in self.sizes:
            time = point(self.time(size, "cupy") / self.floor_time())
            if isinstance(time, float) and time <= AT_FLOOR:
                times[size] = time
        return times

    def products_time(self, size: Size, library: str) -> Quantity:
        """Time (s) of the products of an iteration, less a call that is waited for of each."""
        calls = CALLS["matrix_product"] * self.measured("call_time", SMALL, library)
        return self.measured(PRODUCTS, size, library) - calls

    def of_training(self, quantity: str, library: str) -> tuple[float, ...]:
        """Samples of a training; empty without one."""
        samples = self.samples(quantity, self.factors(None, library, subject="training"))
        return () if isinstance(samples, Missing) else tuple(map(float, samples))


def _spread(cases: Iterable[list[float]]) -> Spread | None:
    """Find the largest ratio within a case, among cases with two measurements or more."""
    ratios = [max(case) / min(case) for case in cases if len(case) > 1 and min(case) > 0]
    return Spread(max(ratios), len(ratios)) if ratios else None
