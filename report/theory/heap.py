"""Batch size from which glibc returns the memory of a layer's call, and the next call maps it anew.

glibc's rules (malloc/malloc.c of glibc 2.36, mallopt(3)):

- a block of the mapping threshold and more is mapped by itself, and unmapped when it is freed;
- smaller blocks lie on the heap, which grows by what is missing and a reserve (``M_TOP_PAD``); if
  the free memory at its top reaches the trimming threshold, all of it but the reserve is returned;
- both thresholds are fixed once a program sets one of them.  Until then, freeing a block that was
  mapped by itself raises the mapping threshold to its size, up to 32 MiB, and the trimming
  threshold to twice its size.

PyTorch calls oneDNN for a convolution, which copies the input into blocks of channels, computes the
output in such blocks, and copies that into the output of the call.  A linear layer is a product of
MKL, whose buffers stay allocated, and allocates its output only.
"""

from collections.abc import Mapping
from typing import Final

from report.core.records.layers import Convolution, Layer
from report.core.records.record import Level
from report.theory.work import input_bytes, output_bytes, round_up

#: A page of memory, and the header of a block that is mapped by itself (B).
PAGE: Final = 4096
HEADER: Final = 16
#: Bytes by which the heap grows beyond a request, and which stay when it is trimmed.
RESERVE: Final = 128 * 2**10
#: Largest mapping threshold that glibc adapts to (``DEFAULT_MMAP_THRESHOLD_MAX``, B).
LARGEST_MAPPING: Final = 32 * 2**20


def freed_blocks(layer: Layer) -> int:
    """Bytes of the blocks that a call has freed at the top of the heap when its output is freed.

    An output that is smaller than the copy of the input would take its place; the layers of the
    study have larger outputs.
    """
    if isinstance(layer, Convolution):
        return 2 * output_bytes(layer) + input_bytes(layer)
    return output_bytes(layer)


def raised_trimming(elements: int) -> int:
    """Trimming threshold (B) after a mapped float32 tensor of ``elements`` was freed."""
    return 2 * round_up(4 * elements + HEADER, PAGE)


def trimming_threshold(factors: Mapping[str, Level]) -> int:
    """Trimming threshold (B) of a case that sets it (MiB), or frees a tensor instead."""
    if "freed" in factors:
        return raised_trimming(int(factors["freed"]))
    return int(factors["threshold"]) * 2**20


def mapping_start(image: Layer, trimming: int) -> float:
    """Batch size (in images, not rounded) from which calls map pages; ``image`` is a batch of one.

    ``trimming`` is the trimming threshold (B).  No mapping threshold is above 32 MiB.
    """
    trimmed = (trimming - RESERVE) / freed_blocks(image)
    return min(trimmed, LARGEST_MAPPING / output_bytes(image))


def network_mapping_start(first: Convolution, trimming: int) -> float:
    """Batch size (in images, not rounded) from which calls of a network map pages.

    ``first`` is its first convolution on one image, with a normalisation behind it.  The output in
    blocks, the output and the normalised output have one size.  The first is free when the third is
    requested, but glibc reuses no block for an aligned request of the same size: the heap grows,
    and all three are free at its top when the call is over.
    """
    return (trimming - RESERVE) / (3 * output_bytes(first))


def mapping_end(image: Layer, trimming: int) -> float:
    """Batch size from which calls map pages if the copy of the input lies lower in the heap."""
    outputs = 2 if isinstance(image, Convolution) else 1
    trimmed = (trimming - RESERVE) / (outputs * output_bytes(image))
    return min(trimmed, LARGEST_MAPPING / output_bytes(image))


def keeps_freed(peak: int, trimming: int) -> bool:
    """Return whether glibc keeps all memory that a call frees, at most ``peak`` bytes at once."""
    return peak < trimming - RESERVE
