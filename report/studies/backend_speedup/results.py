"""Derived results of backend_speedup: speed-ups, idle time, and effects of changes."""

from collections.abc import Iterator
from itertools import product
from operator import truediv

from report.core.missing import Missing
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, absent, exact, named
from report.studies.backend_speedup import subject, theory
from report.studies.backend_speedup.runs import PRODUCTS, Run, changed_case, ranged
from report.studies.backend_speedup.subject import NAMES, NONE, SMALL, SOURCE, Size

#: Largest relative error of a confirmed prediction, committed with the predictions.
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


def session_effect(runs: tuple[Run, Run], library: str) -> Quantity:
    """Divide a library's time in the second session by that in the first."""
    main, other = (run.medians("time", SOURCE, library) for run in runs)
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


def effect(run: Run, size: Size, change: str, over: str = NONE) -> Quantity:
    """Divide NumPy's time with a change by that with another or none, process by process."""
    return run.changed("time", size, change) / run.changed("time", size, over)


def double_factor(run: Run, size: Size, of: str = "scaling") -> Quantity:
    """Divide NumPy's time in double by that in single precision, in cases of a subject."""
    cases = (run.of_numpy(size, change, of) for change in (subject.DOUBLE, NONE))
    times = (run.process_medians("time", case) for case in cases)
    return ranged((run,), "double over single precision", truediv, *times)


def shares_of_ceilings(pair: tuple[Run, Run], size: Size) -> tuple[Quantity, Quantity]:
    """Divide times of the first product at ceilings of another run by its own time."""
    run, ceilings = pair
    (time, _), (work, moved) = run.parts(size), theory.first_product(size)
    return work / ceilings.product_rate / time, moved / ceilings.peak_rate("copy") / time


def double_in_parts(run: Run, size: Size) -> tuple[Quantity, Quantity]:
    """Divide times of the first product, called alone, and of the rest in both precisions."""
    (double, double_rest), (single, rest) = (run.parts(size, c) for c in (subject.DOUBLE, NONE))
    return double / single, double_rest / rest


def predicted_effect(run: Run, size: Size, change: str) -> Quantity:
    """Predict the effect of a change."""
    added = theory.added_by(change, run, size)
    return named("predicted effect", 1 + added / run.changed("time", size))


def added_by_calls(run: Run, size: Size, calls: int) -> Quantity:
    """Return the time (s) that another number of calls adds to PyTorch's iteration."""
    return run.with_calls("time", size, calls) - run.with_calls("baseline_time", size, calls)


def saved_by_merging(run: Run, size: Size) -> Quantity:
    """Return the time (s) that merged calls save in PyTorch's iteration."""
    return -1 * added_by_calls(run, size, subject.MERGED_CALLS)


def share_of_predicted(run: Run, change: str) -> Quantity:
    """Divide the time that a change adds or saves at the source's size by the predicted one."""
    added = run.changed("time", SOURCE, change) - run.changed("time", SOURCE)
    return added / theory.added_by(change, run, SOURCE)


def over_prediction(run: Run, size: Size, change: str) -> Quantity:
    """Divide the measured effect of a change by the predicted one."""
    return effect(run, size, change) / predicted_effect(run, size, change)


def as_predicted(run: Run, change: str) -> Iterator[Statement]:
    """State that a change has its predicted effect on both networks, within the tolerance."""
    for size in subject.NETWORKS.values():
        yield over_prediction(run, size, change).near(1, within=TOLERANCE)
