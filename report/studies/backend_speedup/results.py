"""Derived results of backend_speedup: speed-ups (gains), idle time, and effects of changes."""

from collections.abc import Iterator
from itertools import product
from operator import truediv

from report.core.missing import Missing
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, exact_number, missing_number, named
from report.studies.backend_speedup import subject, theory
from report.studies.backend_speedup.runs import PRODUCT_TIME, Run, changed_factors, ratio_with_range
from report.studies.backend_speedup.subject import SMALL_SIZE, SOURCE_SIZE, UNCHANGED, Size

#: Largest relative error of a confirmed prediction; it was committed with the predictions.
TOLERANCE = 0.2


def gain(
    run: Run,
    library: str,
    size: Size = SOURCE_SIZE,
    quantity: str = "time",
    reference: str = "numpy",
) -> Quantity:
    """Divide the time of the library ``reference`` by the time of ``library``.

    ``quantity`` is ``time`` for a whole iteration, or the time of one kind of operation.
    """
    slow, fast = (run.medians(quantity, size, name) for name in (reference, library))
    name = f"speed-up of {subject.LIBRARIES[library]}({size}) over {subject.LIBRARIES[reference]}"
    return ratio_with_range((run,), name, truediv, slow, fast)


def gain_over(runs: tuple[Run, Run], change: str = UNCHANGED, library: str = "cupy") -> Quantity:
    """Divide NumPy's time with a change in the second run by a library's time in the first run."""
    gpu, baseline = runs
    slow = baseline.process_medians("time", changed_factors(SOURCE_SIZE, change))
    fast = gpu.medians("time", SOURCE_SIZE, library)
    name = f"speed-up of {subject.LIBRARIES[library]}({SOURCE_SIZE}) over {change}"
    return ratio_with_range((gpu, baseline), name, truediv, slow, fast)


def ratio_of_gains(
    dividend: tuple[Run, str, Size], divisor: tuple[Run, str, Size], library: str
) -> Quantity:
    """Divide two speed-ups of a library over NumPy, each given as (run, quantity, size)."""
    times = []
    for run, quantity, size in (dividend, divisor):
        times += [run.medians(quantity, size, name) for name in ("numpy", library)]
    name = f"ratio of speed-ups of {subject.LIBRARIES[library]}"
    return ratio_with_range((divisor[0], dividend[0]), name, _ratio_of_ratios, *times)


def _ratio_of_ratios(slow: float, fast: float, divisor_slow: float, divisor_fast: float) -> float:
    return slow / fast / (divisor_slow / divisor_fast)


def growth_to(run: Run, size: Size) -> Quantity:
    """Divide CuPy's time at a size by CuPy's time at the smallest size."""
    times = (run.medians("time", case, "cupy") for case in (size, SMALL_SIZE))
    name = f"time of CuPy({size}) over that({SMALL_SIZE})"
    return ratio_with_range((run,), name, truediv, *times)


def idle_share(run: Run, short: Size = SMALL_SIZE) -> Quantity:
    """Return a lower bound of the GPU's idle share of CuPy's iteration at the size ``short``.

    At the source's size the GPU computes longer, by at least the additional time of the matrix
    products.  The part of this time by which the iteration is not longer fits into idle time of the
    short iteration.
    """
    cases = product((PRODUCT_TIME, "time"), (SOURCE_SIZE, short))
    times = [run.medians(*case, "cupy") for case in cases]
    return ratio_with_range((run,), "least idle share(cupy)", _idle_share, *times)


def _idle_share(products: float, short_products: float, time: float, short_time: float) -> float:
    return (products - short_products - time + short_time) / short_time


def session_effect(runs: tuple[Run, Run], library: str) -> Quantity:
    """Divide a library's time in the other session by its time in the main session."""
    main, other = (run.medians("time", SOURCE_SIZE, library) for run in runs)
    name = f"time of {subject.LIBRARIES[library]}, other over main session"
    return ratio_with_range(runs, name, truediv, other, main)


def largest_difference(run: Run, quantity: str) -> Quantity:
    """Return the largest relative difference between CuPy and NumPy in a loss or accuracy."""
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


def float64_factor(run: Run, size: Size, case_subject: str = "scaling") -> Quantity:
    """Divide NumPy's time in double precision by its time in single precision.

    If the run measured no changes, the cases with the factor ``subject`` = ``case_subject`` count.
    """
    precisions = (subject.DOUBLE_PRECISION, UNCHANGED)
    cases = (run.numpy_factors(size, precision, case_subject) for precision in precisions)
    times = (run.process_medians("time", case) for case in cases)
    return ratio_with_range((run,), "double over single precision", truediv, *times)


def shares_of_ceilings(run: Run, ceilings: Run, size: Size) -> tuple[Quantity, Quantity]:
    """Divide rates of the first product by peak rates of ``ceilings``, in FLOP/s and in B/s."""
    time, _ = run.product_and_rest(size)
    work, moved_bytes = theory.first_product(size)
    return work / ceilings.product_rate / time, moved_bytes / ceilings.peak_rate("copy") / time


def float64_factors_by_part(run: Run, size: Size) -> tuple[Quantity, Quantity]:
    """Divide times in double by times in single precision, for the first product and the rest."""
    float64_product, float64_rest = run.product_and_rest(size, subject.DOUBLE_PRECISION)
    float32_product, float32_rest = run.product_and_rest(size)
    return float64_product / float32_product, float64_rest / float32_rest


def predicted_effect(run: Run, size: Size, change: str) -> Quantity:
    """Predict NumPy's time with a change, divided by its time without."""
    added = theory.time_added_by_change(change, run, size)
    return named("predicted effect", 1 + added / run.numpy_with("time", size))


def time_added_by_calls(run: Run, size: Size, calls: int) -> Quantity:
    """Return the time (s) of PyTorch's iteration in ``calls`` library calls minus that in 31."""
    return run.torch_series("time", size, calls) - run.torch_series("baseline_time", size, calls)


def time_saved_by_merging(run: Run, size: Size) -> Quantity:
    """Return the time (s) that PyTorch saves by merging library calls, as in ``MERGED_CALLS``."""
    return -1 * time_added_by_calls(run, size, subject.MERGED_CALLS)


def share_of_predicted(run: Run, change: str) -> Quantity:
    """Divide the time that a change adds at the source's size by the predicted added time."""
    time, unchanged = (run.numpy_with("time", SOURCE_SIZE, c) for c in (change, UNCHANGED))
    return (time - unchanged) / theory.time_added_by_change(change, run, SOURCE_SIZE)


def effect_over_predicted(run: Run, size: Size, change: str) -> Quantity:
    """Divide the measured effect of a change by its predicted effect."""
    return effect(run, size, change) / predicted_effect(run, size, change)


def as_predicted(run: Run, change: str) -> Iterator[Statement]:
    """State that a change has its predicted effect on both networks, within the tolerance."""
    for size in subject.NETWORKS.values():
        yield effect_over_predicted(run, size, change).near(1, within=TOLERANCE)
