"""Derived results of backend_speedup: speed-ups, growth, idle time, and effects of changes."""

from collections.abc import Iterator
from itertools import product
from operator import truediv

from report.core.missing import Missing
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import largest
from report.studies.backend_speedup import theory
from report.studies.backend_speedup.runs import PRODUCTS, Run
from report.studies.backend_speedup.subject import (
    ALL_CALLS,
    LESS_WIDE,
    MERGED_CALLS,
    NAMES,
    ON_GPU,
    SMALL,
    SOURCE,
    Size,
)

# ------------------------------------------------------------------------------------- speed-ups


def gain(run: Run, library: str, size: Size = SOURCE, session: int = 0) -> Quantity:
    """A library's speed-up over NumPy in one session."""
    times = (run.in_session(session, size, name) for name in ("numpy", library))
    return run.ranged(f"{_gain(size, library)}, session {session + 1}", truediv, *times)


def growth_of_gain(run: Run, size: Size, base: Size) -> Quantity:
    """Ratio of CuPy's speed-ups at two sizes in one session."""
    times = (run.medians("time", *case) for case in product((size, base), ("numpy", "cupy")))
    name = f"{_gain(size, 'cupy')} over {_gain(base, 'cupy')}"
    return run.ranged(name, _ratio_of_ratios, *times)


def over_earlier(run: Run, library: str) -> Quantity:
    """Divide a library's speed-up at the source's size in the earlier session by the main one's."""
    cases = product((1, 0), (SOURCE,), ("numpy", library))
    times = (run.in_session(*case) for case in cases)
    return run.ranged(f"{_gain(SOURCE, library)}, earlier over main", _ratio_of_ratios, *times)


def _ratio_of_ratios(slow: float, fast: float, base_slow: float, base_fast: float) -> float:
    return slow / fast / (base_slow / base_fast)


def between_libraries(run: Run) -> Quantity:
    """Divide CuPy's time at the source's size by PyTorch's, in this session."""
    times = (run.medians("time", SOURCE, name) for name in ON_GPU)
    return run.ranged("CuPy's time over PyTorch's", truediv, *times)


def _gain(size: Size, library: str) -> str:
    """Name a speed-up over NumPy."""
    return f"speed-up of {NAMES[library]}({size})"


# ------------------------------------------------------------------------------ growth, idle time


def growth(run: Run, quantity: str, library: str) -> Quantity:
    """Added time (s) from the least work to the source's size."""
    more, less = (run.measured(quantity, size, library) for size in (SOURCE, SMALL))
    return more - less


def growth_to(
    run: Run, size: Size, base: Size = SMALL, library: str = "cupy", session: int = 0
) -> Quantity:
    """Divide a library's time at a size by that at another one."""
    times = (run.in_session(session, case, library) for case in (size, base))
    return run.ranged(f"time of {NAMES[library]}({size}) over that({base})", truediv, *times)


def largest_growth(run: Run, library: str) -> Quantity:
    """The largest growth of a library's time up to the limit ``FLAT``, less one."""
    sizes = run.small_sizes or (SOURCE,)
    return largest(*(growth_to(run, size, library=library) for size in sizes)) - 1


def time_per_call(run: Run, library: str) -> Quantity:
    """Divide the time (s) of a library's smallest iteration by its number of calls."""
    return run.time(SMALL, library) / ALL_CALLS


def busy(run: Run, library: str) -> Quantity:
    """Least share of the source's iteration in which the GPU computes its products.

    It is the growth of their time since the least work, so that no cost of a call is in it.
    """
    return run.ranged(f"least share of the products({library})", _busy, *_parts(run, library))


def idle(run: Run, library: str) -> Quantity:
    """Least share of the smallest iteration in which the GPU has nothing to do.

    The products' time at the source's size beyond their time at the smallest one, less the
    iteration's own growth, fits into gaps of the smallest iteration.
    """
    return run.ranged(f"least idle share({library})", _idle, *_parts(run, library))


def _busy(products: float, least_products: float, time: float, least_time: float) -> float:
    return (products - least_products) / time


def _idle(products: float, least_products: float, time: float, least_time: float) -> float:
    return (products - least_products - time + least_time) / least_time


def _parts(run: Run, library: str) -> list[list[float]]:
    """The times by process of products, then of iterations, at the source's and the least work."""
    cases = product((PRODUCTS, "time"), (SOURCE, SMALL))
    return [run.medians(*case, library) for case in cases]


def largest_difference(run: Run, quantity: str) -> Quantity:
    """Largest relative difference between CuPy's and NumPy's training in any iteration."""
    name = f"largest difference of {quantity}"
    cupy, numpy = (
        run.samples(quantity, run.factors(None, library, subject="training"))
        for library in ("cupy", "numpy")
    )
    if isinstance(cupy, Missing) or isinstance(numpy, Missing) or len(cupy) != len(numpy):
        return absent(name, "1", f"not recorded on {run.label}")
    difference = max(abs(a - b) / b for a, b in zip(cupy, numpy, strict=True))
    return to_digits(exact(name, "1", difference, run.file), 2)


# -------------------------------------------------------------------------------- single changes


def as_predicted(run: Run, change: str) -> Iterator[Statement]:
    """State that a change adds or saves the predicted time, at both sizes with work."""
    for size in SOURCE, LESS_WIDE:
        yield theory.of_change(run, size, change).as_predicted


def merging(run: Run, size: Size) -> theory.Comparison:
    """Compare PyTorch's iteration with merged calls to the unchanged one."""
    return theory.of_calls(run, "torch", MERGED_CALLS, size)
