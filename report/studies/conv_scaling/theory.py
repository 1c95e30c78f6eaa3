"""Theory of the layer at a batch size, as quantities over its extents."""

from __future__ import annotations

import math
from functools import cache
from typing import Final

from report.quantity.evaluation import point
from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import counted_in, flops
from report.studies.conv_scaling.subject import subject

_LAYER = subject(1)
C_IN = exact("C_in", "1", _LAYER.input_shape[1])
C_OUT = exact("C_out", "1", _LAYER.output_shape[1])
KERNEL = exact("K_h", "1", _LAYER.kernel[0])
H_IN, W_IN = (
    exact(n, "1", e) for n, e in zip(("H_in", "W_in"), _LAYER.input_shape[2:], strict=True)
)
H_OUT, W_OUT = named("H_out", H_IN - KERNEL + 1), named("W_out", W_IN - KERNEL + 1)
ELEMENT = exact("s", "B", 4)

WEIGHTS = named("weights", KERNEL * exact("K_w", "1", _LAYER.kernel[1]) * C_IN * C_OUT)
PARAMETERS = named("parameters", WEIGHTS + C_OUT)
OUTPUTS = named("output elements", H_OUT * W_OUT * C_OUT)
PARAMETER_BYTES = named("parameter bytes", ELEMENT * PARAMETERS)
#: The largest block that glibc puts on its heap by itself, DEFAULT_MMAP_THRESHOLD_MAX (B).
HEAP_LIMIT: Final = 32 * 2**20


def _images(batch: int) -> Quantity:
    return exact("B", "1", batch)


@cache
def multiply_adds(batch: int) -> Quantity:
    """Multiply-adds (MAC) of a forward call."""
    image = named("multiply-adds", counted_in("MAC", WEIGHTS * H_OUT * W_OUT))
    return image if batch == 1 else named("multiply-adds", _images(batch) * image)


@cache
def work(batch: int) -> Quantity:
    """Work (FLOP) of a forward call."""
    return named("forward work", flops(multiply_adds(batch)))


@cache
def output_bytes(batch: int) -> Quantity:
    """Bytes of the output."""
    return named("output bytes", ELEMENT * _images(batch) * OUTPUTS)


@cache
def input_bytes(batch: int) -> Quantity:
    """Bytes of the input."""
    return named("input bytes", ELEMENT * _images(batch) * C_IN * H_IN * W_IN)


@cache
def memory(batch: int) -> Quantity:
    """Bytes of parameters and output: the source's rule for the memory of the layer."""
    return named("parameters and output", PARAMETER_BYTES + output_bytes(batch))


@cache
def free(batch: int) -> Quantity:
    """Bytes that are free when a call and its result are over: two outputs and a copy of the input.

    oneDNN copies the input into blocks of channels, computes an output in blocks, and copies that
    into the output.
    """
    return named("free bytes", 2 * output_bytes(batch) + input_bytes(batch))


#: What glibc adds to its heap when that grows, and keeps when it is trimmed (DEFAULT_TOP_PAD).
RESERVE = exact("reserve", "B", 128 * 2**10)
#: A page of memory, and the header of a block that is mapped by itself (B).
PAGE_BYTES: Final = 4096
_HEADER: Final = 16
#: The freed tensor of the program in the paper (elements).
FREED: Final = 8_000_000


def raised_threshold(elements: int) -> Quantity:
    """Trimming threshold (B) after a tensor of so many elements was freed: twice its mapped block.

    A block that is mapped by itself has whole pages.  glibc raises both thresholds when it frees
    one (mallopt(3), M_MMAP_THRESHOLD).
    """
    pages = -(-(4 * elements + _HEADER) // PAGE_BYTES)
    return named("trimming threshold", 2 * exact("mapped block", "B", pages * PAGE_BYTES))


def last_without_pages(elements: int) -> Quantity:
    """Largest batch size at which no process maps pages after a tensor was freed.

    Both outputs and the copy of the input lie at the top of the heap.
    """
    return _whole_images(elements, free(1))


def first_with_pages(elements: int) -> Quantity:
    """Smallest batch size at which every process maps pages after a tensor was freed.

    The copy of the input may lie lower in the heap, so that both outputs exceed the threshold.
    """
    return _whole_images(elements, 2 * output_bytes(1)) + 1


def _whole_images(elements: int, image: Quantity) -> Quantity:
    """Images of so many free bytes that stay below the trimming threshold less the reserve."""
    images = point((raised_threshold(elements) - RESERVE) / image)
    assert isinstance(images, float)
    return exact("(threshold − reserve) / free bytes, whole images", "1", math.floor(images))
