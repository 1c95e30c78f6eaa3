"""Work of an iteration, and predicted effects of single changes to NumPy's baseline.

The time that a change adds is predicted from times of the unchanged baseline: its products, its
passes over the hidden layer, and an iteration on one image, which makes as many library calls and
computes nearly nothing.  The time to map a page is a ceiling that the same run measured.
"""

from functools import cache
from typing import Final

from report.core.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, exact, named, recorded
from report.quantity.operations import counted_in, flops, largest
from report.studies.backend_speedup.runs import PRODUCTS, Run
from report.studies.backend_speedup.subject import (
    CLASSES,
    DOUBLE,
    HIDDEN,
    ONE_IMAGE,
    PIXELS,
    RETURNED,
    THREAD,
    Size,
)
from report.theory import heap
from report.theory.work import round_up

#: Pixels, neurons of the source, and classes.
D, H, K = (
    exact(name, "1", count) for name, count in (("d", PIXELS), ("h", HIDDEN), ("k", CLASSES))
)
#: Smallest block (B) that glibc maps separately, as long as no larger one was freed.
_MAPPED_FROM: Final = 128 * 1024


@cache
def work(size: Size) -> Quantity:
    """Work (FLOP) of the products of an iteration, which are nearly all of it."""
    h, m = exact("h", "1", size.hidden), exact("m", "1", size.images)
    image = counted_in("MAC", 2 * D * h + 3 * h * K)
    return named("work", flops(m * image))


def first_product(size: Size) -> tuple[Quantity, Quantity]:
    """Return work (FLOP) and moved bytes (float32, each once) of the first product."""
    h, m = size
    work = flops(counted_in("MAC", exact("multiply-adds", "1", h * PIXELS * m)))
    moved = 4 * (h * PIXELS + PIXELS * m + h * m)
    return work, exact("moved bytes", "B", moved)


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


def added_by(change: str, run: Run, size: Size) -> Quantity:
    """Predict the time (s) that a change adds to NumPy's iteration; negative if it saves time."""
    if change == THREAD:  # the products halve, and nothing else
        return -0.5 * _computing(run, PRODUCTS, size)
    if change == RETURNED:  # each block is mapped anew, page by page
        return mapped_pages(size) * page_price(run)
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


def page_price(run: Run) -> Quantity:
    """The time (s) of mapping a page, a fact of the run."""
    rate = point(run.peak_rate("page_mapping"))
    price = rate if isinstance(rate, Missing) else 1 / rate
    return recorded("price of a page", "s", price, run.file)
