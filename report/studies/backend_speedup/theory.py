"""Work of an iteration, and predicted effects of single changes to it.

What a change of NumPy's baseline adds is predicted from rates of the unchanged one: the time of its
products, of its passes over the hidden layer, and of an iteration on one image, which calls the
library as often and computes nearly nothing.  A mapped page has the price that a ceiling of the
same run measured.

A call has the price of one of many that add two numbers in an iteration on one image; calls that
are merged save their share of that iteration, and as much time with more images.
"""

from functools import cache
from itertools import product
from typing import Final, NamedTuple

from report.core.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, Statement, exact, named, recorded
from report.quantity.operations import counted_in, flops, largest
from report.studies.backend_speedup.runs import PRODUCTS, Run
from report.studies.backend_speedup.subject import (
    ALL_CALLS,
    CLASSES,
    DOUBLE,
    HIDDEN,
    MANY_CALLS,
    ONE_IMAGE,
    PIXELS,
    RETURNED,
    THREAD,
    Size,
)
from report.theory import heap
from report.theory.work import round_up

#: Added time within this share of its prediction confirms it.
TOLERANCE: Final = 0.2
#: Pixels, neurons of the source, and classes.
D, H, K = (
    exact(name, "1", count) for name, count in (("d", PIXELS), ("h", HIDDEN), ("k", CLASSES))
)
#: Smallest block that glibc maps by itself, while no larger one was freed (B).
_MAPPED_FROM: Final = 128 * 1024


@cache
def work(size: Size) -> Quantity:
    """Work (FLOP) of the products of an iteration, which are nearly all of it."""
    h, m = exact("h", "1", size.hidden), exact("m", "1", size.images)
    image = counted_in("MAC", 2 * D * h + 3 * h * K)
    return named("work", flops(m * image))


class Comparison(NamedTuple):
    """Times (s) of an iteration without and with a change, and the time that it should add."""

    unchanged: Quantity
    changed: Quantity
    predicted: Quantity

    @property
    def effect(self) -> Quantity:
        """Divide the time with the change by that without."""
        return self.changed / self.unchanged

    @property
    def predicted_effect(self) -> Quantity:
        """Predict the effect."""
        return named("predicted effect", 1 + self.predicted / self.unchanged)

    @property
    def as_predicted(self) -> Statement:
        """State that the change adds or saves the predicted time, within the tolerance."""
        added = (self.changed - self.unchanged) / self.predicted
        return added.near(1, within=TOLERANCE)


# ------------------------------------------------------------------------------ NumPy's baseline


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


def _added_by_change(run: Run, size: Size, change: str) -> Quantity:
    """Predict the time (s) that a change adds to NumPy's iteration; negative if it saves time."""
    if change == THREAD:  # the products halve, and nothing else
        return -0.5 * _computing(run, PRODUCTS, size)
    if change == RETURNED:  # each block is mapped anew, page by page
        return mapped_pages(size) * _page_price(run)
    if change == DOUBLE:  # twice the bytes, and half as many elements in a vector
        return _computing(run, "time", size)
    # Bias and ReLU of the hidden layer read and write its sums once instead of twice.
    hidden = size.hidden / (size.hidden + CLASSES)
    passes = hidden * _computing(run, "bias_time", size) + _computing(run, "relu_time", size)
    return -0.5 * passes


def _computing(run: Run, quantity: str, size: Size) -> Quantity:
    """Time (s) without the cost of calls, which is the time of an iteration on one image."""
    computing = run.changed(quantity, size) - run.changed(quantity, ONE_IMAGE)
    return largest(computing, exact("no work", "s", 0))


def _page_price(run: Run) -> Quantity:
    """The time (s) of mapping a page, a fact of the run."""
    rate = point(run.peak_rate("page_mapping"))
    price = rate if isinstance(rate, Missing) else 1 / rate
    return recorded("price of a page", "s", price, run.file)


def of_change(run: Run, size: Size, change: str) -> Comparison:
    """Compare NumPy's iteration with a change to that without, process by process."""
    times = run.changed("time", size), run.changed("time", size, change)
    return Comparison(*times, _added_by_change(run, size, change))


# ----------------------------------------------------------------------------------------- calls


def call_price(run: Run, library: str) -> Quantity:
    """Time (s) of a call that is not waited for: of many added to one image's iteration."""
    unchanged, many = (
        run.with_calls(library, MANY_CALLS, ONE_IMAGE, quantity)
        for quantity in ("baseline_time", "time")
    )
    return (many - unchanged) / (MANY_CALLS - ALL_CALLS)


def of_calls(run: Run, library: str, calls: int, size: Size) -> Comparison:
    """Compare an iteration with another number of calls to the unchanged one beside it."""
    unchanged, changed, least, merged = (
        run.with_calls(library, calls, images, quantity)
        for images, quantity in product((size, ONE_IMAGE), ("baseline_time", "time"))
    )
    number = exact("calls", "1", calls) - ALL_CALLS
    if calls > ALL_CALLS:
        added = number * call_price(run, library)
    elif size == ONE_IMAGE:
        added = number / ALL_CALLS * unchanged
    else:
        added = merged - least
    return Comparison(unchanged, changed, added)
