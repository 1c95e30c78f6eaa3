"""Batch size from which glibc returns freed memory after a call, so that the next call maps pages.

glibc allocates as follows (malloc/malloc.c of glibc 2.36, mallopt(3)):

- A block of at least the mapping threshold gets its own mapping, and is unmapped when freed.
- Smaller blocks are on the heap.  The heap grows by the missing bytes plus a reserve
  (``M_TOP_PAD``).  When the free memory at the top of the heap reaches the trimming threshold,
  glibc returns this memory to the system, except the reserve.
- If a program sets one of the two thresholds, both stay constant.  Otherwise, freeing a block with
  its own mapping raises the mapping threshold to the block's size (at most 32 MiB), and the
  trimming threshold to twice this size.

For a convolution, PyTorch calls oneDNN.  oneDNN copies the input into blocks of channels, computes
the output in such blocks, and copies this blocked output into the call's output.  A linear layer is
a matrix product of MKL; MKL's buffers stay allocated, so that the call allocates only the output.
"""

from collections.abc import Mapping
from typing import Final

from report.core.records.layers import Convolution, Layer
from report.core.records.record import Level
from report.theory.work import input_bytes, output_bytes, round_up

#: Size of a page (B).
PAGE_BYTES: Final = 4096
#: Header of a block with its own mapping (B).
HEADER_BYTES: Final = 16
#: Free bytes that glibc adds when the heap grows, and keeps when it trims the heap (M_TOP_PAD).
RESERVE_BYTES: Final = 128 * 2**10
#: Largest mapping threshold that glibc sets by itself (``DEFAULT_MMAP_THRESHOLD_MAX``, B).
LARGEST_MAPPING_BYTES: Final = 32 * 2**20


def freed_bytes(layer: Layer) -> int:
    """Return the free bytes at the top of the heap once a call's output is freed.

    This assumes an output larger than the input: a smaller output would be allocated in place of
    the freed copy of the input.
    """
    if isinstance(layer, Convolution):
        return 2 * output_bytes(layer) + input_bytes(layer)
    return output_bytes(layer)


def threshold_after_freeing(elements: int) -> int:
    """Return the trimming threshold (B) after a float32 tensor with its own mapping is freed."""
    return 2 * round_up(4 * elements + HEADER_BYTES, PAGE_BYTES)


def trimming_threshold(factors: Mapping[str, Level]) -> int:
    """Return the trimming threshold (B) of a case.

    The factor ``threshold`` sets the threshold (MiB).  The factor ``freed`` is the number of
    elements of a float32 tensor that the case frees before.
    """
    if "freed" in factors:
        return threshold_after_freeing(int(factors["freed"]))
    return int(factors["threshold"]) * 2**20


def mapping_start(image: Layer, trimming: int) -> float:
    """Return the batch size (images, not rounded) from which calls of a layer map pages.

    ``image`` is the layer on one image; ``trimming`` is the trimming threshold (B).  An output of
    32 MiB or more always has its own mapping.
    """
    trimmed = (trimming - RESERVE_BYTES) / freed_bytes(image)
    return min(trimmed, LARGEST_MAPPING_BYTES / output_bytes(image))


def network_mapping_start(first: Convolution, trimming: int) -> float:
    """Return the batch size (images, not rounded) from which calls of a network map pages.

    ``first`` is the network's first convolution on one image, followed by a normalisation.  Blocked
    output, output and normalised output have the same size.  The blocked output is free when the
    normalised output is requested, but glibc does not reuse a block for an aligned request of the
    same size.  So the heap grows, and all three blocks are free at its top after the call.
    """
    return (trimming - RESERVE_BYTES) / (3 * output_bytes(first))


def mapping_end(image: Layer, trimming: int) -> float:
    """Return the batch size (images, not rounded) from which calls map pages in all processes.

    In some processes only the outputs are at the top of the heap, without the input's copy.
    """
    outputs = 2 if isinstance(image, Convolution) else 1  # two: the output and its blocked form
    trimmed = (trimming - RESERVE_BYTES) / (outputs * output_bytes(image))
    return min(trimmed, LARGEST_MAPPING_BYTES / output_bytes(image))


def returned_pages(layers: tuple[Layer, ...]) -> int:
    """Return the number of pages that glibc returns and maps again in each call of a network.

    glibc returns the memory that a layer frees if this memory and ``RESERVE_BYTES`` reach the
    trimming threshold, which the largest output sets.
    """
    trimming = threshold_after_freeing(max(map(output_bytes, layers)) // 4)  # elements of 4 B
    freed = map(freed_bytes, layers)
    return sum(size // PAGE_BYTES for size in freed if size >= trimming - RESERVE_BYTES)
