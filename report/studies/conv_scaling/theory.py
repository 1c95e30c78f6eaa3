"""Theory of the layer at a batch size, as quantities over its extents."""

from __future__ import annotations

import math
from functools import cache
from typing import Final

from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import counted_in, flops
from report.studies.conv_scaling.subject import subject
from report.theory import heap
from report.theory import work as work_of
from report.theory.work import square_convolution

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


#: Bytes that the heap keeps when it is trimmed.
RESERVE = exact("reserve", "B", heap.RESERVE)
#: Pages of the copy of the weights.
WEIGHT_PAGES: Final = 18
#: The size of a page on all CPUs.
PAGE: Final = exact("page", "B", heap.PAGE)


@cache
def pages(batch: int) -> Quantity:
    """Pages that a call maps if its outputs and its copy of the input lie at the top of the heap.

    Larger blocks are mapped by themselves, each with a page more for its header.  Where both
    outputs are and the copy of the input is not, it is too small to be returned.
    """
    layer = subject(batch)
    if work_of.output_bytes(layer) <= heap.LARGEST_MAPPING:
        return named("pages", (free(batch) - RESERVE) / PAGE)
    if work_of.input_bytes(layer) <= heap.LARGEST_MAPPING:
        return named("pages", 2 * output_bytes(batch) / PAGE + 2)
    return named("pages", free(batch) / PAGE + 3)


#: Elements of the freed tensor, and the images of a call up to which no process maps pages after.
FREED: Final = 8_000_000
CURED: Final = math.floor(heap.start_of_cliff(subject(1), heap.raised_trimming(FREED)))
CURED_TO = exact("(threshold − reserve) ÷ free bytes of an image, whole images", "1", CURED)
#: Images up to which no process maps pages without a freed tensor, and beyond which all do with it.
LAST_WITHOUT: Final = 4
ALL_AFTER: Final = math.floor(heap.end_of_start(subject(1), heap.raised_trimming(FREED)))
RAISED = exact("raised threshold", "B", heap.raised_trimming(FREED))

#: The first convolution of ResNet-18 on one image.
STEM: Final = square_convolution("conv", (1, 3, 224, 224), 64, kernel=7, stride=2, padding=3)


def network_start(elements: int) -> int:
    """Largest batch size of ResNet-18 without pages after a tensor of ``elements`` was freed."""
    return math.floor(heap.start_of_network(STEM, heap.raised_trimming(elements)))
