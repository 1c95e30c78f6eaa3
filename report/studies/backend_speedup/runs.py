"""Measurements of one run: iterations by size and library, and what follows from them.

Few processes timed a case of the GPU, so that ratios there have a range instead of a confidence
interval: over all pairs of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, product
from statistics import median
from typing import Final, TypeAlias

import msgspec

from report.core.missing import Missing
from report.core.records.record import Level
from report.core.records.strict import parse_json
from report.core.statistics.estimates import Estimate
from report.core.text.escape import markdown
from report.evidence import runs as any_study
from report.evidence.runs import CaseFactors
from report.quantity.evaluation import to_digits
from report.quantity.expression import Inferred, Quantity, absent, exact
from report.quantity.operations import largest
from report.quantity.units import ONE
from report.studies.backend_speedup.subject import (
    ALL_CALLS,
    CALLS,
    FLAT,
    NAMES,
    SHARED,
    SMALL,
    SOURCE,
    Size,
)

#: The time of the matrix products of an iteration, as records name it.
PRODUCTS: Final = "matrix_product_time"
#: How records name the execution of one compiled call, by library.
COMPILED: Final = {"jax": "compiled", "torch": "inductor"}
#: Libraries that compute on a GPU.
ON_GPU: Final = ("cupy", "torch_cuda")


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
            if _is_meant(factors, "scaling", "float32"):
                sizes.add(Size(int(factors.get("hidden", 10)), int(factors["samples"])))
        return tuple(sorted(sizes, key=lambda size: (size.multiply_adds, size)))

    @property
    def small_sizes(self) -> tuple[Size, ...]:
        """The sizes at which CuPy's time hardly grows, the least work first."""
        return tuple(size for size in self.sizes if size.multiply_adds <= FLAT.multiply_adds)

    def factors(
        self, size: Size | None, library: str, dtype: str = "float32", subject: str = "scaling"
    ) -> CaseFactors:
        """The factors of a case as the record names them; of any size where none is given."""
        wanted: dict[str, Level] = {"backend": library}
        if size is not None:
            wanted |= {"hidden": size.hidden, "samples": size.images}
        for case in self.stored.record.cases:
            if _is_meant(case.factors, subject, dtype) and wanted.items() <= case.factors.items():
                return case.factors
        return {"subject": subject, "dtype": dtype, **wanted}

    def measured(self, quantity: str, size: Size, library: str, dtype: str = "float32") -> Quantity:
        """A quantity of a case over all processes."""
        return self.series(quantity, self.factors(size, library, dtype))

    def time(self, size: Size, library: str, dtype: str = "float32") -> Quantity:
        """The time (s) of an iteration."""
        return self.measured("time", size, library, dtype)

    def medians(self, quantity: str, size: Size, library: str) -> list[float]:
        """The median of each process; empty if none measured the quantity."""
        return self._medians_of(quantity, self.factors(size, library))

    def _medians_of(self, quantity: str, factors: CaseFactors) -> list[float]:
        processes = self.by_process(quantity, factors)
        return [] if isinstance(processes, Missing) else [p.median for p in processes]

    def ranged(
        self,
        name: str,
        ratios: Sequence[float],
        of_others: Sequence[float] = (),
        value: float | None = None,
    ) -> Quantity:
        """The median of ``ratios``, or ``value``, and the range of all ratios.

        The range is no confidence interval.
        One more case exceeds the largest of n with a chance of 1 / (n + 1), which stands for the
        level; n counts the cases that two processes timed.
        """
        if not ratios:
            return absent(name, "1", f"not timed on {self.label}")
        values, cases = (*ratios, *of_others), self._repeated_cases
        middle = median(ratios) if value is None else value

        def interval(confidence: float) -> Estimate:
            level = min(confidence, cases / (cases + 1))
            return Estimate(middle, min(values), max(values), cases, level)

        others = tuple(run.file for run in self.sessions)
        return Inferred(ONE, name, self.file, interval=interval, further=others)

    def quotient(
        self,
        name: str,
        over: Sequence[float],
        under: Sequence[float],
        of_others: Sequence[float] = (),
    ) -> Quantity:
        """The ratio of two medians over processes, with the range of all pairs of processes."""
        value = median(over) / median(under) if over and under else None
        return self.ranged(name, ratios_of(over, under), of_others, value)

    @cached_property
    def _repeated_cases(self) -> int:
        """The number of cases that two processes timed, in one session or in two."""
        count = 0
        for case in product(self.sizes, NAMES):
            times = [run.medians("time", *case) for run in (self, *self.sessions)]
            count += len([*chain(*times)]) > 1
        return count

    def _both_times(
        self, size: Size, library: str, quantity: str = "time", session: int = 0
    ) -> tuple[list[float], list[float]]:
        """The times of NumPy and of a library by process, in this session (0) or another."""
        if session > len(self.sessions):
            return [], []
        run = (self, *self.sessions)[session]
        return run.medians(quantity, size, "numpy"), run.medians(quantity, size, library)

    def gain_in(
        self, library: str, size: Size = SOURCE, quantity: str = "time", session: int = 0
    ) -> Quantity:
        """A library's speed-up over NumPy with the range of one session."""
        name = f"{_gain(size, library)} in {quantity}, session {session + 1}"
        return self.quotient(name, *self._both_times(size, library, quantity, session))

    def gain(self, size: Size, library: str = "cupy") -> Quantity:
        """A library's speed-up in this session, with the range of all sessions."""
        times, of_all = self._both_times(size, library), self.all_gains(size, library)
        return self.quotient(_gain(size, library), *times, of_all)

    def all_gains(self, size: Size, library: str) -> list[float]:
        """The speed-ups of all sessions."""
        sessions = range(len(self.sessions) + 1)
        times = [self._both_times(size, library, session=session) for session in sessions]
        return [ratio for both in times for ratio in ratios_of(*both)]

    def growth_of_gain(self, size: Size, base: Size) -> Quantity:
        """Ratio of CuPy's speed-ups at two sizes; both may vary between sessions."""
        gains = self.all_gains(size, "cupy"), self.all_gains(base, "cupy")
        return self.ranged(f"{_gain(size)} over {_gain(base)}", ratios_of(*gains))

    def over_earlier(self, library: str) -> Quantity:
        """Divide a library's speed-up at the source's size in the earlier session by ours."""
        times = [self._both_times(SOURCE, library, session=session) for session in (1, 0)]
        if not all(map(all, times)):
            return absent("speed-up over ours", "1", "not timed in two sessions")
        (slow, fast), (our_slow, our_fast) = times
        value = median(slow) / median(fast) * median(our_fast) / median(our_slow)
        ratios = ratios_of(*(ratios_of(*both) for both in times))
        return self.ranged(f"{_gain(SOURCE, library)}, earlier over ours", ratios, value=value)

    def between_libraries(self) -> Quantity:
        """Divide CuPy's time at the source's size by PyTorch's, in this session."""
        times = (self.medians("time", SOURCE, name) for name in ON_GPU)
        return self.quotient("CuPy's time over PyTorch's", *times)

    def growth(self, quantity: str, library: str) -> Quantity:
        """Added time (s) from the least work to the source's size."""
        more, less = (self.measured(quantity, size, library) for size in (SOURCE, SMALL))
        return more - less

    def idle_time(self) -> Quantity:
        """Least time (s) in which the GPU idles in CuPy's smallest iteration."""
        return self.growth(PRODUCTS, "cupy") - self.growth("time", "cupy")

    def growth_to(self, size: Size, base: Size = SMALL, library: str = "cupy") -> Quantity:
        """Divide a library's time at a size by that at another one."""
        times = (self.medians("time", case, library) for case in (size, base))
        return self.quotient(f"time of {NAMES[library]}({size}) over that({base})", *times)

    def largest_growth(self, library: str) -> Quantity:
        """The largest growth of a library's time up to the limit ``FLAT``, less one."""
        sizes = self.small_sizes or (SOURCE,)
        return largest(*(self.growth_to(size, library=library) for size in sizes)) - 1

    def calls_time(self, library: str) -> Quantity:
        """Time (s) of as many smallest calls as an iteration makes."""
        return ALL_CALLS * self.measured("call_time", SMALL, library)

    def calls_share(self, library: str) -> Quantity:
        """Divide the time of an iteration's number of smallest calls by its time at least work."""
        return self.calls_time(library) / self.time(SMALL, library)

    def compiled_time(self) -> Quantity:
        """Time (s) of JAX's smallest iteration as one compiled call."""
        return self.series("time", {**self.factors(SMALL, "jax"), "execution": "compiled"})

    def times_around_compiling(self, size: Size, library: str = "jax") -> list[list[float]]:
        """Times (s) of an iteration by process: before it is compiled, and as one compiled call."""
        eager = self.factors(size, library)
        cases = eager, {**eager, "execution": COMPILED[library]}
        return [self._medians_of("time", case) for case in cases]

    def gain_of_compiling(self, size: Size, library: str = "jax") -> Quantity:
        """Divide a library's time of an iteration by its time as one compiled call."""
        name = f"{NAMES[library]}'s time over that of one compiled call({size})"
        return self.quotient(name, *self.times_around_compiling(size, library))

    def busy(self, library: str) -> Quantity:
        """Least share of the source's iteration in which the GPU computes its products.

        It is the growth of their time since the least work, so that no cost of a call is in it.
        """
        shares = [(most - least) / t for most, least, t, _ in self._products_and_times(library)]
        return self.ranged(f"least share of the products({library})", shares)

    def idle(self, library: str) -> Quantity:
        """Least share of the smallest iteration in which the GPU has nothing to do.

        The products' time at the source's size beyond their time at the smallest one, less the
        iteration's own growth, fits into gaps of the smallest iteration.
        """
        shares = []
        for most, least, longer, floor in self._products_and_times(library):
            shares.append((most - least - longer + floor) / floor)
        return self.ranged(f"least idle share({library})", shares)

    def _products_and_times(self, library: str) -> list[tuple[float, ...]]:
        """All combinations of processes: products, then iterations, at both sizes."""
        cases = product((PRODUCTS, "time"), (SOURCE, SMALL))
        return [*product(*(self.medians(*case, library) for case in cases))]

    def products_time(self, size: Size, library: str) -> Quantity:
        """Time (s) of the products of an iteration, less a smallest call for each."""
        calls = CALLS["matrix_product"] * self.measured("call_time", SMALL, library)
        return self.measured(PRODUCTS, size, library) - calls

    def page_faults(self, size: Size) -> Quantity:
        """The page faults of NumPy in an iteration, to two digits."""
        return to_digits(self.measured("page_faults", size, "numpy"), 2)

    def largest_difference(self, quantity: str) -> Quantity:
        """Largest relative difference between CuPy's and NumPy's training in any iteration."""
        name = f"largest difference of {quantity}"
        cupy, numpy = (
            self.samples(quantity, self.factors(None, library, subject="training"))
            for library in ("cupy", "numpy")
        )
        if isinstance(cupy, Missing) or isinstance(numpy, Missing) or len(cupy) != len(numpy):
            return absent(name, "1", f"not recorded on {self.label}")
        difference = max(abs(a - b) / b for a, b in zip(cupy, numpy, strict=True))
        return to_digits(exact(name, "1", difference, self.file), 2)

    def image_copy_time(self, copies: int = 1) -> Quantity:
        """Predict the time (s) to copy the source's images to the GPU, at our training's rate."""
        images = exact("images", "1", SOURCE.images) / SHARED.images
        factors = self.factors(None, "cupy", subject="training")
        return copies * images * self.series("to_device_time", factors)


def _gain(size: Size, library: str = "cupy") -> str:
    """Name a speed-up over NumPy."""
    return f"speed-up of {NAMES[library]}({size})"


def ratios_of(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """The ratios of all pairs; empty if one side is."""
    return [a / b for a, b in product(over, under)]


def _is_meant(factors: CaseFactors, subject: str, dtype: str) -> bool:
    """Tell if a case is of the subject, on the perceptron without a compiler."""
    fixed = {"network": "perceptron", "execution": "eager"}
    wanted = {"subject": subject, "dtype": dtype, **fixed}
    return {**fixed, **factors}.items() >= wanted.items()


#: A CPU, and a GPU with its host.
Pair: TypeAlias = tuple[Run, Run]


def host_shifts(pair: Pair) -> list[Quantity]:
    """NumPy's time on the CPU over that on the GPU's host, by size and session."""
    (cpu, gpu), name = pair, "time over the host's"
    shifts = []
    for size, run in product(gpu.sizes, (gpu, *gpu.sessions)):
        times = cpu.medians("time", size, "numpy"), run.medians("time", size, "numpy")
        if all(times):
            shifts.append(gpu.quotient(f"{name}({size}, {run.file})", *times))
    return shifts or [absent(name, "1", "no size was timed on both CPUs")]


def extreme_shift(pair: Pair, choose: Callable[..., Quantity]) -> Quantity:
    """The ``smallest`` or ``largest`` of ``host_shifts``."""
    return choose(*host_shifts(pair))


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
