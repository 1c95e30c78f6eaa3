"""Single changes to a training iteration: threads, allocator, precision, fused ReLU, calls.

The unchanged iteration makes 31 library calls in float32 on one thread, and the allocator keeps
freed memory.
"""

import ctypes
import platform
from typing import Final

from experiments.backends.libraries import LibraryArray, Namespace
from experiments.backends.perceptron import Activations, Operations, Parameters
from experiments.harness.study import UnavailableError

UNCHANGED: Final = "none"
SECOND_THREAD: Final = "second thread"
MEMORY_RETURNED: Final = "returned memory"
DOUBLE_PRECISION: Final = "double precision"
FUSED_RELU: Final = "fused ReLU"
CHANGES: Final = (UNCHANGED, SECOND_THREAD, MEMORY_RETURNED, DOUBLE_PRECISION, FUSED_RELU)

#: Library calls of the unchanged iteration.
ALL_CALLS: Final = 31
#: Calls if the learning rate is divided by the number of images, instead of four gradients.
DIVIDED_RATE_CALLS: Final = 27
#: Calls if PyTorch also computes softmax, ReLU's gradient and each update in one call.
MERGED_CALLS: Final = 17
#: Numbers of calls to compare with ``ALL_CALLS``; each extra call adds two arrays of one element.
CALL_COUNTS: Final = (MERGED_CALLS, DIVIDED_RATE_CALLS, 2 * ALL_CALLS, 11 * ALL_CALLS)

#: Size (B) from which glibc maps blocks separately, and returns freed blocks to the system.
MAPPING_THRESHOLD: Final = 128 * 1024
#: Number of mallopt(3)'s parameter for the free memory that the heap keeps at its top.
_M_TOP_PAD: Final = -2
#: Number of mallopt(3)'s parameter for the size from which blocks are mapped separately.
_M_MMAP_THRESHOLD: Final = -3
#: Size of a block of rows (B), small enough to stay in a cache between bias and ReLU.
_BLOCK_BYTES: Final = 256 * 1024


def apply_change(change: str) -> None:
    """Set BLAS's threads and the allocator of this process, which measures a single case.

    Raises ``UnavailableError`` for ``MEMORY_RETURNED`` without glibc.  Other modules apply
    ``DOUBLE_PRECISION`` and ``FUSED_RELU``.
    """
    from threadpoolctl import threadpool_limits

    threadpool_limits(2 if change == SECOND_THREAD else 1)
    if change == MEMORY_RETURNED:
        _return_freed_memory()


def _return_freed_memory() -> None:
    """Have large blocks mapped separately from now on, so that freeing them returns memory."""
    if platform.libc_ver()[0] != "glibc":
        raise UnavailableError("Only glibc can be told to return freed memory.")
    library = ctypes.CDLL(None)
    library.mallopt(_M_TOP_PAD, 0)
    library.mallopt(_M_MMAP_THRESHOLD, MAPPING_THRESHOLD)
    library.malloc_trim(0)  # otherwise large blocks would first fill the free end of the heap


def fused_forward(ops: Operations, p: Parameters, x: LibraryArray) -> Activations:
    """Compute the forward pass with bias and ReLU of the hidden layer in one pass over memory.

    The ReLU overwrites the sums, because the backward pass only reads which sums are positive.
    """
    xp, sums = ops.xp, ops.product(p.w1, x)
    rows = max(1, _BLOCK_BYTES // (sums.shape[1] * sums.itemsize))
    for start in range(0, len(sums), rows):
        block = sums[start : start + rows]
        xp.add(block, p.b1[start : start + rows], out=block)
        xp.maximum(block, 0, out=block)
    scores = ops.add_bias(ops.product(p.w2, sums), p.b2)
    return Activations(sums, sums, scores, ops.softmax(scores))


class DividedRate(Operations):
    """Operations that divide the learning rate, not the four gradients, by the number of images."""

    def __init__(self, xp: Namespace, images: int) -> None:
        super().__init__(xp)
        self.images = images

    def mean(self, product: LibraryArray, samples: int) -> LibraryArray:
        """Return ``product``, a sum over the samples, unchanged."""
        return product

    def mean_error(self, error: LibraryArray, samples: int) -> LibraryArray:
        return self.xp.sum(error, axis=1, keepdims=True)

    def descend(self, parameter: LibraryArray, gradient: LibraryArray, rate: float) -> LibraryArray:
        return super().descend(parameter, gradient, rate / self.images)


class MergedSteps(DividedRate):
    """Operations of PyTorch in one call each: softmax, ReLU's gradient, update of a parameter."""

    def softmax(self, sums: LibraryArray) -> LibraryArray:
        return self.xp.softmax(sums, dim=0)

    def through_relu(self, gradient: LibraryArray, sums: LibraryArray) -> LibraryArray:
        return self.xp.ops.aten.threshold_backward(gradient, sums, 0)

    def descend(self, parameter: LibraryArray, gradient: LibraryArray, rate: float) -> LibraryArray:
        return self.xp.sub(parameter, gradient, alpha=rate / self.images)


def operations_with(calls: int, xp: Namespace, images: int) -> Operations:
    """Return operations with which an iteration makes ``calls`` library calls, or ``ALL_CALLS``.

    If ``calls`` is above ``ALL_CALLS``, the caller must add the extra calls.
    """
    if calls == MERGED_CALLS:
        return MergedSteps(xp, images)
    return DividedRate(xp, images) if calls == DIVIDED_RATE_CALLS else Operations(xp)
