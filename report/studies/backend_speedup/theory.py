"""Work of an iteration, and predicted effects of single changes to NumPy's baseline.

The time that a change adds is predicted from times of the unchanged iteration: the times of its
matrix products, of bias and ReLU of the hidden layer, and of the iteration on one image.  On one
image, the library calls are the same and compute nearly nothing.  The same run measured the time
in which the system maps a page of memory.
"""

from functools import cache
from typing import Final

from report.core.missing import Missing
from report.quantity.evaluation import point_estimate
from report.quantity.expression import Quantity, exact_number, named, recorded_number
from report.quantity.operations import counted_in, flops, largest
from report.studies.backend_speedup import subject
from report.studies.backend_speedup.runs import PRODUCT_TIME, Run
from report.studies.backend_speedup.subject import CLASSES, HIDDEN, ONE_IMAGE, PIXELS, Size
from report.theory import heap
from report.theory.work import round_up

#: Pixels of an image, hidden neurons of the source's network, and classes.
D, H = exact_number("d", "1", PIXELS), exact_number("h", "1", HIDDEN)
K = exact_number("k", "1", CLASSES)
#: Smallest block (B) that glibc maps separately, unless a larger block was freed before.
_SMALLEST_MAPPED_BYTES: Final = 128 * 1024


@cache
def work(size: Size) -> Quantity:
    """Return the work (FLOP) of an iteration's matrix products; other steps are negligible."""
    h, m = exact_number("h", "1", size.hidden), exact_number("m", "1", size.images)
    work_of_an_image = counted_in("MAC", 2 * D * h + 3 * h * K)
    return named("work", flops(m * work_of_an_image))


def first_product(size: Size) -> tuple[Quantity, Quantity]:
    """Return the work (FLOP) of the first layer's product, and the size (B) of its three arrays."""
    h, m = size
    work = flops(counted_in("MAC", exact_number("multiply-adds", "1", h * PIXELS * m)))
    moved_bytes = 4 * (h * PIXELS + PIXELS * m + h * m)
    return work, exact_number("moved bytes", "B", moved_bytes)


def mapped_pages(size: Size) -> int:
    """Count the pages of all arrays of an iteration in float32 that glibc maps separately.

    The gradient of ReLU is a product with a mask; NumPy writes it into the mask's float32 copy.
    """
    h, m = size
    bytes_of_arrays = (
        *(4 * h * m,) * 5,  # hidden layer: 2 arrays of sums, ReLU, 2 arrays of its gradient
        h * m,  # the mask of ReLU's gradient, with one byte per element
        *(4 * CLASSES * m,) * 6,  # last layer: 2 arrays of sums, 3 of softmax, the error
        *(4 * m,) * 2,  # maximum and sum of softmax
        *(4 * h * PIXELS,) * 4,  # first layer: 2 arrays of the gradient, step, new weights
    )
    pages = 0
    for array_bytes in bytes_of_arrays:
        block = array_bytes + heap.HEADER_BYTES
        if block >= _SMALLEST_MAPPED_BYTES:
            pages += round_up(block, heap.PAGE_BYTES) // heap.PAGE_BYTES
    return pages


def time_added_by_change(change: str, run: Run, size: Size) -> Quantity:
    """Predict the time (s) that a change adds to NumPy's iteration; negative if it saves time."""
    if change == subject.SECOND_THREAD:  # the matrix products, and nothing else, take half the time
        return -0.5 * _computing_time(run, PRODUCT_TIME, size)
    if change == subject.MEMORY_RETURNED:  # all freed pages are mapped again in each iteration
        return mapped_pages(size) * page_mapping_time(run)
    if change == subject.DOUBLE_PRECISION:  # elements of twice the size take twice the time
        return _computing_time(run, "time", size)
    # FUSED_RELU: one pass over the hidden layer's sums adds the bias and applies ReLU, so that both
    # operations together take half the time.
    hidden_share = size.hidden / (size.hidden + CLASSES)
    bias_time = hidden_share * _computing_time(run, "bias_time", size)
    return -0.5 * (bias_time + _computing_time(run, "relu_time", size))


def _computing_time(run: Run, quantity: str, size: Size) -> Quantity:
    """Return a time (s) of NumPy's iteration minus the same time on one image; at least 0.

    The time on one image is the time of the library calls alone.
    """
    computing = run.numpy_with(quantity, size) - run.numpy_with(quantity, ONE_IMAGE)
    return largest(computing, exact_number("no work", "s", 0))


def page_mapping_time(run: Run) -> Quantity:
    """Return the time (s) of mapping a page, from the rate (pages/s) that the run measured."""
    rate = point_estimate(run.peak_rate("page_mapping"))
    mapping_time = rate if isinstance(rate, Missing) else 1 / rate
    return recorded_number("price of a page", "s", mapping_time, run.file)
