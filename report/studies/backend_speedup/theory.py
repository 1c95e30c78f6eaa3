"""Effect of single changes to the CPU baseline, predicted from rates and then measured.

The rates come from the unchanged baseline: the time of its products, of its passes over the hidden
layer, and of an iteration on one image, which calls the library as often and computes nearly
nothing.  A mapped page has the price that a ceiling of the same run measured.

A call has the price of one of many that add two numbers in an iteration on one image; calls that
are merged save their share of that iteration, and as much time with more images.
"""

from collections.abc import Iterator
from typing import Final

from report.core.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, Statement, exact, named, recorded
from report.quantity.operations import largest
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.subject import (
    ALL_CALLS,
    CALLS,
    CLASSES,
    MANY_CALLS,
    PIXELS,
    SOURCE,
    Size,
)
from report.theory import heap
from report.theory.work import round_up

NONE: Final = "none"
THREAD: Final = "second thread"
RETURNED: Final = "returned memory"
DOUBLE: Final = "double precision"
FUSED: Final = "fused ReLU"
CHANGES: Final = (THREAD, RETURNED, DOUBLE, FUSED)

#: One image; the source's size; about as much work with more neurons.
ONE_IMAGE: Final = Size(10, 1)
LESS_WIDE: Final = Size(512, 1_438)
#: Added time within this share of its prediction confirms it.
TOLERANCE: Final = 0.2

#: Smallest block that glibc maps by itself, while no larger one was freed (B).
_MAPPED_FROM: Final = 128 * 1024


def mapped_pages(size: Size) -> int:
    """Count the pages of the arrays that an iteration allocates in float32, if all are mapped.

    NumPy reuses the temporary array of one product of two arrays (``through_relu``).
    """
    h, m = size
    arrays = (
        *(4 * h * m,) * 5,  # sums twice, ReLU, its gradient twice
        h * m,  # the mask of the gradient, a byte an element
        *(4 * CLASSES * m,) * 6,  # sums twice, softmax thrice, error
        *(4 * m,) * 2,  # maximum and sum of softmax
        *(4 * h * PIXELS,) * 4,  # gradient twice, step and new weights of the first layer
    )
    blocks = (bytes_ + heap.HEADER for bytes_ in arrays)
    mapped = (round_up(block, heap.PAGE) for block in blocks if block >= _MAPPED_FROM)
    return sum(mapped) // heap.PAGE


def page_price(run: Run) -> Quantity:
    """The time (s) of mapping a page, a fact of the run."""
    rate = point(run.peak_rate("page_mapping"))
    price = rate if isinstance(rate, Missing) else 1 / rate
    return recorded("price of a page", "s", price, run.file)


def changed(run: Run, quantity: str, size: Size, change: str = NONE) -> Quantity:
    """A measured quantity of NumPy's iteration with a change."""
    return run.series(
        quantity,
        {
            "subject": "change",
            "dataset": "digits",
            "hidden": size.hidden,
            "samples": size.images,
            "dtype": "float64" if change == DOUBLE else "float32",
            "change": change,
            "backend": "numpy",
        },
    )


def effect(run: Run, size: Size, change: str) -> Quantity:
    """Divide a time with a change by that without, process by process."""
    return changed(run, "time", size, change) / changed(run, "time", size)


def predicted(run: Run, size: Size, change: str) -> Quantity:
    """The effect that the rates of the unchanged baseline predict."""
    time = changed(run, "time", size)
    return named("predicted effect", 1 + _added(run, size, change) / time)


def added_over_predicted(run: Run, size: Size, change: str) -> Quantity:
    """Divide the time that a change adds to an iteration by the predicted one."""
    added = changed(run, "time", size, change) - changed(run, "time", size)
    return added / _added(run, size, change)


def product_share_of_miss(run: Run) -> Quantity:
    """Share of the first product in what double precision adds less than predicted."""
    time, doubled = (changed(run, "product_alone_time", SOURCE, kind) for kind in (NONE, DOUBLE))
    missed = _added(run, SOURCE, DOUBLE) * (1 - added_over_predicted(run, SOURCE, DOUBLE))
    return (2 * time - doubled) / missed


def _added(run: Run, size: Size, change: str) -> Quantity:
    """The time (s) that a change adds to an iteration; negative if it saves time."""
    if change == THREAD:  # the products halve, and nothing else
        return -0.5 * _work(run, "matrix_product_time", size)
    if change == RETURNED:  # each block is mapped anew, page by page
        return mapped_pages(size) * page_price(run)
    if change == DOUBLE:  # twice the bytes, and half as many elements in a vector
        return _work(run, "time", size)
    # Bias and ReLU of the hidden layer read and write its sums once instead of twice.
    hidden = size.hidden / (size.hidden + CLASSES)
    passes = hidden * _work(run, "bias_time", size) + _work(run, "relu_time", size)
    return -0.5 * passes


def _work(run: Run, quantity: str, size: Size) -> Quantity:
    """Time (s) without the cost of calls, which is the time of an iteration on one image."""
    work = changed(run, quantity, size) - changed(run, quantity, ONE_IMAGE)
    return largest(work, exact("no work", "s", 0))


def as_predicted(run: Run, change: str) -> Iterator[Statement]:
    """State that a change adds or saves the predicted time, at both sizes with work."""
    return (confirms(run, size, change) for size in (SOURCE, LESS_WIDE))


def confirms(run: Run, size: Size, change: str) -> Statement:
    """State that a change adds or saves the predicted time, within the tolerance."""
    return added_over_predicted(run, size, change).near(1, within=TOLERANCE)


# --------------------------------------------------------------------------------------- calls


def with_calls(run: Run, library: str, calls: int, images: int, quantity: str = "time") -> Quantity:
    """A time (s) of an iteration with ``calls`` library calls, or of the one beside it."""
    return run.series(
        quantity,
        {
            "subject": "calls",
            "dataset": "digits",
            "hidden": SOURCE.hidden,
            "samples": images,
            "dtype": "float32",
            "calls": calls,
            "backend": library,
        },
    )


def effect_of_calls(run: Run, library: str, calls: int, images: int) -> Quantity:
    """Divide the time of an iteration with other calls by that of the unchanged one beside it."""
    unchanged = with_calls(run, library, calls, images, "baseline_time")
    return with_calls(run, library, calls, images) / unchanged


def added_by_calls(run: Run, library: str, calls: int, images: int) -> Quantity:
    """The time (s) that other calls add to an iteration; negative if they save time."""
    unchanged = with_calls(run, library, calls, images, "baseline_time")
    return with_calls(run, library, calls, images) - unchanged


def call_price(run: Run, library: str) -> Quantity:
    """The time (s) of a call that is not waited for: of many added to one image's iteration."""
    added = added_by_calls(run, library, MANY_CALLS, ONE_IMAGE.images)
    return added / (MANY_CALLS - sum(CALLS.values()))


def predicted_by_calls(run: Run, library: str, calls: int, images: int) -> Quantity:
    """The time (s) that other calls should add."""
    number = exact("calls", "1", calls) - ALL_CALLS
    if calls > sum(CALLS.values()):
        return number * call_price(run, library)
    if images > ONE_IMAGE.images:
        return added_by_calls(run, library, calls, ONE_IMAGE.images)
    unchanged = with_calls(run, library, calls, images, "baseline_time")
    return number / ALL_CALLS * unchanged


def predicted_effect_of_calls(run: Run, library: str, calls: int, images: int) -> Quantity:
    """The effect of other calls that their predicted time gives."""
    unchanged = with_calls(run, library, calls, images, "baseline_time")
    return 1 + predicted_by_calls(run, library, calls, images) / unchanged


def confirms_calls(run: Run, library: str, calls: int, images: int) -> Statement:
    """State that other calls add or save the predicted time, within the tolerance."""
    added = added_by_calls(run, library, calls, images)
    return (added / predicted_by_calls(run, library, calls, images)).near(1, within=TOLERANCE)
