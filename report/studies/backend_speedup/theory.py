"""Work of an iteration, and predicted effects of single changes to NumPy's baseline.

The time that a change adds is predicted from times of the unchanged baseline: of its products, of
its passes over the hidden layer, and of an iteration on one image.  The latter makes as many
library calls and computes nearly nothing.  The same run measured the time to map a page.
"""

from functools import cache
from typing import Final

from report.core.missing import Missing
from report.quantity.evaluation import point_estimate
from report.quantity.expression import Quantity, exact_number, named, recorded_number
from report.quantity.operations import counted_in, flops, largest
from report.studies.backend_speedup import subject
from report.studies.backend_speedup.runs import PRODUCTS, Run
from report.studies.backend_speedup.subject import CLASSES, HIDDEN, ONE_IMAGE, PIXELS, Size
from report.theory import heap
from report.theory.work import round_up

#: Pixels of an image, hidden neurons of the source, and classes.
D, H, K = (
    exact_number("d", "1", PIXELS),
    exact_number("h", "1", HIDDEN),
    exact_number("k", "1", CLASSES),
)
#: Smallest block (B) that glibc maps separately, as long as no larger block was freed.
_SMALLEST_MAPPED_BYTES: Final = 128 * 1024


@cache
def work(size: Size) -> Quantity:
    """Return the work (FLOP) of an iteration's matrix products, nearly all of its work."""
    h, m = exact_number("h", "1", size.hidden), exact_number("m", "1", size.images)
    work_of_an_image = counted_in("MAC", 2 * D * h + 3 * h * K)
    return named("work", flops(m * work_of_an_image))


def first_product(size: Size) -> tuple[Quantity, Quantity]:
    """Return work (FLOP) of the first layer's product, and bytes (B) of its three arrays."""
    h, m = size
    work = flops(counted_in("MAC", exact_number("multiply-adds", "1", h * PIXELS * m)))
    moved_bytes = 4 * (h * PIXELS + PIXELS * m + h * m)
    return work, exact_number("moved bytes", "B", moved_bytes)


def mapped_pages(size: Size) -> int:
    """Count the pages of all arrays of an iteration in float32 that glibc maps separately.

    In ``through_relu``, a product of two arrays, NumPy reuses a temporary array.
    """
    h, m = size
    bytes_of_arrays = (
        *(4 * h * m,) * 5,  # hidden layer: sums twice, ReLU, gradient of ReLU twice
        h * m,  # the mask of the gradient, with one byte per element
        *(4 * CLASSES * m,) * 6,  # last layer: sums twice, softmax thrice, error
        *(4 * m,) * 2,  # maximum and sum of softmax
        *(4 * h * PIXELS,) * 4,  # first layer: gradient twice, step, new weights
    )
    pages = 0
    for array_bytes in bytes_of_arrays:
        block = array_bytes + heap.HEADER
        if block >= _SMALLEST_MAPPED_BYTES:
            pages += round_up(block, heap.PAGE) // heap.PAGE
    return pages


def added_by(change: str, run: Run, size: Size) -> Quantity:
    """Predict the time (s) that a change adds to NumPy's iteration; negative if it saves time."""
    if change == subject.THREAD:  # only the time of the products halves
        return -0.5 * _computing_time(run, PRODUCTS, size)
    if change == subject.RETURNED:  # each block is mapped anew, page by page
        return mapped_pages(size) * page_price(run)
    if change == subject.DOUBLE:  # twice the bytes, and half as many elements in a vector
        return _computing_time(run, "time", size)
    # Fused, bias and ReLU of the hidden layer read and write its sums once instead of twice.
    hidden_share = size.hidden / (size.hidden + CLASSES)
    bias_time = hidden_share * _computing_time(run, "bias_time", size)
    return -0.5 * (bias_time + _computing_time(run, "relu_time", size))


def _computing_time(run: Run, quantity: str, size: Size) -> Quantity:
    """Return a time (s) of NumPy's iteration less that on one image: the cost of its calls."""
    computing = run.numpy_with(quantity, size) - run.numpy_with(quantity, ONE_IMAGE)
    return largest(computing, exact_number("no work", "s", 0))


def page_price(run: Run) -> Quantity:
    """Return the time (s) of mapping a page, from the rate that the run measured."""
    rate = point_estimate(run.peak_rate("page_mapping"))
    price = rate if isinstance(rate, Missing) else 1 / rate
    return recorded_number("price of a page", "s", price, run.file)
