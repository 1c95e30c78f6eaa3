"""Derived results of backend_speedup: speed-ups, idle time, and effects of changes."""

from itertools import product
from operator import truediv

from report.core.missing import Missing
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, absent, exact, named
from report.quantity.operations import largest
from report.studies.backend_speedup import subject, theory
from report.studies.backend_speedup.runs import PRODUCTS, Run, changed_case, ranged
from report.studies.backend_speedup.subject import NAMES, NONE, SMALL, SOURCE, Size

#: Largest relative error of a confirmed prediction of added time.
TOLERANCE = 0.2


def gain(
    run: Run, library: str, size: Size = SOURCE, quantity: str = "time", over: str = "numpy"
) -> Quantity:
    """A library's speed-up over another in one session, of whole iterations or of their parts."""
    times = (run.medians(quantity, size, name) for name in (over, library))
    name = f"speed-up of {NAMES[library]}({size}) over {NAMES[over]}"
    return ranged((run,), name, truediv, *times)


def gain_over(runs: tuple[Run, Run], change: str = NONE, library: str = "cupy") -> Quantity:
    """A library's speed-up at the source's size over NumPy on one core of another machine."""
    gpu, baseline = runs
    slow = baseline.process_medians("time", changed_case(SOURCE, change))
    times = slow, gpu.medians("time", SOURCE, library)
    name = f"speed-up of {NAMES[library]}({SOURCE}) over {change}"
    return ranged((gpu, baseline), name, truediv, *times)


def ratio_of_gains(
    over: tuple[Run, str, Size], under: tuple[Run, str, Size], library: str
) -> Quantity:
    """Divide two speed-ups of a library, each of a quantity at a size in a session."""
    times = [
        run.medians(quantity, size, name)
        for run, quantity, size in (over, under)
        for name in ("numpy", library)
    ]
    name = f"ratio of speed-ups of {NAMES[library]}"
    return ranged((under[0], over[0]), name, _ratio_of_ratios, *times)


def _ratio_of_ratios(slow: float, fast: float, base_slow: float, base_fast: float) -> float:
    return slow / fast / (base_slow / base_fast)


def growth_to(run: Run, size: Size) -> Quantity:
    """Divide CuPy's time at a size by that at the least work."""
    times = (run.medians("time", case, "cupy") for case in (size, SMALL))
    return ranged((run,), f"time of CuPy({size}) over that({SMALL})", truediv, *times)


def largest_growth(run: Run) -> Quantity:
    """The largest growth of CuPy's time up to the limit ``FLAT``, less one."""
    return largest(*(growth_to(run, size) for size in run.small_sizes or (SOURCE,))) - 1


def idle(run: Run, short: Size = SMALL) -> Quantity:
    """Least share of CuPy's ``short`` iteration in which the GPU has nothing to do.

    At the source's size the GPU computes longer, at least by the growth of the products.  The part
    of this growth that does not lengthen the iteration fits into gaps of the short iteration.
    """
    cases = product((PRODUCTS, "time"), (SOURCE, short))
    times = [run.medians(*case, "cupy") for case in cases]
    return ranged((run,), "least idle share(cupy)", _idle, *times)


def _idle(products: float, least_products: float, time: float, least_time: float) -> float:
    return (products - least_products - time + least_time) / least_time


def session_effect(runs: tuple[Run, Run], library: str, size: Size = SOURCE) -> Quantity:
    """Divide a library's time in the second session by that in the first."""
    main, other = (run.medians("time", size, library) for run in runs)
    return ranged(runs, f"time of {NAMES[library]}, other over main session", truediv, other, main)


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


def effect(run: Run, size: Size, change: str) -> Quantity:
    """Divide NumPy's time with a change of the baseline by that without, process by process."""
    return run.changed("time", size, change) / run.changed("time", size)


def thread_factor(run: Run) -> Quantity:
    """Divide NumPy's time at the source's size on one thread by that on two."""
    return run.changed("time", SOURCE) / run.changed("time", SOURCE, subject.THREAD)


def double_factor(run: Run, size: Size, of: str = "scaling") -> Quantity:
    """Divide NumPy's time in double by that in single precision, in cases of a subject."""
    cases = (run.of_numpy(size, change, of) for change in (subject.DOUBLE, NONE))
    times = (run.process_medians("time", case) for case in cases)
    return ranged((run,), "double over single precision", truediv, *times)


def shares_of_ceilings(pair: tuple[Run, Run], size: Size, part: str) -> tuple[Quantity, Quantity]:
    """Divide times of the first product at ceilings of another run by the time of a part."""
    run, ceilings = pair
    time, (work, moved) = run.in_part(part, size), theory.first_product(size)
    return work / ceilings.product_rate / time, moved / ceilings.peak_rate("copy") / time


def rule(pair: tuple[Run, Run], size: Size = SOURCE, part: str = "rest") -> Quantity:
    """Expect the factor of double precision if only the time at both ceilings doubles.

    For the rest it is the least factor: one of its products has the first one's work and bytes.
    """
    arithmetic, memory = shares_of_ceilings(pair, size, part)
    return 1 + arithmetic + memory


def double_in_part(run: Run, size: Size = SOURCE, part: str = "rest") -> Quantity:
    """Divide a part's time in double by that in single precision, process by process."""
    return run.in_part(part, size, subject.DOUBLE) / run.in_part(part, size)


def predicted_effect(run: Run, size: Size, change: str) -> Quantity:
    """Predict the effect of a change."""
    added = theory.added_by(change, run, size)
    return named("predicted effect", 1 + added / run.changed("time", size))


def effect_of_calls(run: Run, size: Size, calls: int, library: str = "torch") -> Quantity:
    """Divide a library's time with another number of calls by the unchanged iteration's."""
    baseline = run.with_calls("baseline_time", size, calls, library)
    return run.with_calls("time", size, calls, library) / baseline


def added_by_calls(run: Run, size: Size, calls: int) -> Quantity:
    """Return the time (s) that another number of calls adds to PyTorch's iteration."""
    return run.with_calls("time", size, calls) - run.with_calls("baseline_time", size, calls)


def as_predicted(run: Run, size: Size, change: str) -> Statement:
    """State that a change adds or saves the predicted time, within the tolerance."""
    added = run.changed("time", size, change) - run.changed("time", size)
    return (added / theory.added_by(change, run, size)).near(1, within=TOLERANCE)
