"""Derived results of backend_speedup: speed-ups, idle time, and effects of changes."""

from collections.abc import Iterator
from itertools import product
from operator import truediv

from report.core.missing import Missing
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, exact_number, missing_number, named
from report.studies.backend_speedup import subject, theory
from report.studies.backend_speedup.runs import PRODUCTS, Run, changed_factors, ratio_with_range
from report.studies.backend_speedup.subject import LIBRARIES, SMALL, SOURCE, UNCHANGED, Size

#: Largest relative error of a confirmed prediction; it was committed with the predictions.
TOLERANCE = 0.2


def gain(
    run: Run, library: str, size: Size = SOURCE, quantity: str = "time", reference: str = "numpy"
) -> Quantity:
    """Return a library's speed-up over the ``reference`` in an iteration, or in one operation."""
    slow, fast = (run.medians(quantity, size, name) for name in (reference, library))
    name = f"speed-up of {LIBRARIES[library]}({size}) over {LIBRARIES[reference]}"
    return ratio_with_range((run,), name, truediv, slow, fast)


def gain_over(runs: tuple[Run, Run], change: str = UNCHANGED, library: str = "cupy") -> Quantity:
    """Return the speed-up of a library (first run) over NumPy with a change (second run)."""
    gpu, baseline = runs
    slow = baseline.process_medians("time", changed_factors(SOURCE, change))
    fast = gpu.medians("time", SOURCE, library)
    name = f"speed-up of {LIBRARIES[library]}({SOURCE}) over {change}"
    return ratio_with_range((gpu, baseline), name, truediv, slow, fast)


def ratio_of_gains(
    dividend: tuple[Run, str, Size], divisor: tuple[Run, str, Size], library: str
) -> Quantity:
    """Divide two speed-ups, each of (run, quantity, size); the divisor's run is the main run."""
    times = []
    for run, quantity, size in (dividend, divisor):
        times += [run.medians(quantity, size, name) for name in ("numpy", library)]
    name = f"ratio of speed-ups of {LIBRARIES[library]}"
    return ratio_with_range((divisor[0], dividend[0]), name, _ratio_of_ratios, *times)


def _ratio_of_ratios(slow: float, fast: float, divisor_slow: float, divisor_fast: float) -> float:
    return slow / fast / (divisor_slow / divisor_fast)


def growth_to(run: Run, size: Size) -> Quantity:
    """Divide CuPy's time at a size by its time on the fewest images."""
    times = (run.medians("time", case, "cupy") for case in (size, SMALL))
    return ratio_with_range((run,), f"time of CuPy({size}) over that({SMALL})", truediv, *times)


def idle(run: Run, short: Size = SMALL) -> Quantity:
    """Return a lower bound of the GPU's idle share of CuPy's iteration at the size ``short``.

    At the source's size the GPU computes longer, at least by the growth of the products.  The part
    of this growth that does not lengthen the iteration fits into gaps of the short iteration.
    """
    cases = product((PRODUCTS, "time"), (SOURCE, short))
    times = [run.medians(*case, "cupy") for case in cases]
    return ratio_with_range((run,), "least idle share(cupy)", _idle, *times)


def _idle(products: float, short_products: float, time: float, short_time: float) -> float:
    return (products - short_products - time + short_time) / short_time


def session_effect(runs: tuple[Run, Run], library: str) -> Quantity:
    """Divide a library's time in the second session by its time in the first."""
    main, other = (run.medians("time", SOURCE, library) for run in runs)
    name = f"time of {LIBRARIES[library]}, other over main session"
    return ratio_with_range(runs, name, truediv, other, main)


def largest_difference(run: Run, quantity: str) -> Quantity:
    """Return the largest relative difference of a loss or accuracy between CuPy and NumPy."""
    name = f"largest difference of {quantity}"
    cupy = run.samples(quantity, run.factors(None, "cupy", subject="training"))
    numpy = run.samples(quantity, run.factors(None, "numpy", subject="training"))
    if isinstance(cupy, Missing) or isinstance(numpy, Missing) or len(cupy) != len(numpy):
        return missing_number(name, "1", f"not recorded on {run.label}")
    difference = max(abs(a - b) / b for a, b in zip(cupy, numpy, strict=True))
    return to_digits(exact_number(name, "1", difference, run.file), 2)


def effect(run: Run, size: Size, change: str, reference: str = UNCHANGED) -> Quantity:
    """Divide NumPy's time with ``change`` by its time with the change ``reference``."""
    return run.numpy_with("time", size, change) / run.numpy_with("time", size, reference)


def double_factor(run: Run, size: Size, kind: str = "scaling") -> Quantity:
    """Divide NumPy's time in double by its time in single precision; ``kind``: subject of cases."""
    cases = (run.numpy_factors(size, change, kind) for change in (subject.DOUBLE, UNCHANGED))
    times = (run.process_medians("time", case) for case in cases)
    return ratio_with_range((run,), "double over single precision", truediv, *times)


def shares_of_ceilings(run: Run, ceilings: Run, size: Size) -> tuple[Quantity, Quantity]:
    """Return the first product's rate over peak rates of ``ceilings``: arithmetic, and memory."""
    time, _ = run.product_and_rest(size)
    work, moved_bytes = theory.first_product(size)
    return work / ceilings.product_rate / time, moved_bytes / ceilings.peak_rate("copy") / time


def double_in_parts(run: Run, size: Size) -> tuple[Quantity, Quantity]:
    """Divide times in double by times in single precision, of the first product and of the rest."""
    double_product, double_rest = run.product_and_rest(size, subject.DOUBLE)
    single_product, single_rest = run.product_and_rest(size)
    return double_product / single_product, double_rest / single_rest


def predicted_effect(run: Run, size: Size, change: str) -> Quantity:
    """Predict NumPy's time with a change, divided by its time without."""
    added = theory.added_by(change, run, size)
    return named("predicted effect", 1 + added / run.numpy_with("time", size))


def added_by_calls(run: Run, size: Size, calls: int) -> Quantity:
    """Return the time (s) that ``calls`` instead of all 31 library calls add to an iteration."""
    return run.torch_series("time", size, calls) - run.torch_series("baseline_time", size, calls)


def saved_by_merging(run: Run, size: Size) -> Quantity:
    """Return the time (s) that PyTorch saves by computing several steps in one library call."""
    return -1 * added_by_calls(run, size, subject.MERGED_CALLS)


def share_of_predicted(run: Run, change: str) -> Quantity:
    """Divide the time that a change adds at the source's size by the predicted added time."""
    time, unchanged = (run.numpy_with("time", SOURCE, c) for c in (change, UNCHANGED))
    return (time - unchanged) / theory.added_by(change, run, SOURCE)


def effect_over_predicted(run: Run, size: Size, change: str) -> Quantity:
    """Divide the measured effect of a change by its predicted effect."""
    return effect(run, size, change) / predicted_effect(run, size, change)


def as_predicted(run: Run, change: str) -> Iterator[Statement]:
    """State that a change has its predicted effect on both networks, within the tolerance."""
    for size in subject.NETWORKS.values():
        yield effect_over_predicted(run, size, change).near(1, within=TOLERANCE)
