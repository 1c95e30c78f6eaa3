"""Theory of conv_scaling: work, memory and mapped pages that follow from shapes."""

from collections.abc import Mapping
from math import ceil
from typing import Final

from report.core.records.record import Level
from report.quantity.expression import Quantity, exact_number, named
from report.quantity.operations import counted_in, flops
from report.studies.conv_scaling import subject
from report.studies.conv_scaling.subject import LARGE_NETWORK, LAYER
from report.theory import heap, work
from report.theory.work import mnist_conv2

C_IN = exact_number("C_in", "1", LAYER.input_shape[1])
C_OUT = exact_number("C_out", "1", LAYER.output_shape[1])
#: Height of the kernel, which is square.
KERNEL = exact_number("K_h", "1", LAYER.kernel[0])
H_IN = exact_number("H_in", "1", LAYER.input_shape[2])
W_IN = exact_number("W_in", "1", LAYER.input_shape[3])
H_OUT, W_OUT = named("H_out", H_IN - KERNEL + 1), named("W_out", W_IN - KERNEL + 1)
#: Size of an element in float32.
ELEMENT = exact_number("s", "B", 4)
WEIGHTS = named("weights", KERNEL * exact_number("K_w", "1", LAYER.kernel[1]) * C_IN * C_OUT)
PARAMETERS = named("parameters", WEIGHTS + C_OUT)
OUTPUTS = named("output elements", H_OUT * W_OUT * C_OUT)
INPUT_BYTES = named("input bytes", ELEMENT * C_IN * H_IN * W_IN)
PARAMETER_BYTES = named("parameter bytes", ELEMENT * PARAMETERS)
IMAGE_MACS = named("multiply-adds", counted_in("MAC", WEIGHTS * H_OUT * W_OUT))
#: Bytes that the heap keeps when it is trimmed.
RESERVE = exact_number("reserve", "B", heap.RESERVE_BYTES)
#: Size of a page, the same on all CPUs.
PAGE = exact_number("page", "B", heap.PAGE_BYTES)


def multiply_adds(batch: int) -> Quantity:
    """Return the multiply-adds (MAC) of a forward call."""
    return named("multiply-adds", exact_number("B", "1", batch) * IMAGE_MACS)


def forward_work(batch: int) -> Quantity:
    """Return the work (FLOP) of a forward call."""
    return named("forward work", flops(multiply_adds(batch)))


def output_bytes(batch: int) -> Quantity:
    """Return the size (B) of the output."""
    return named("output bytes", ELEMENT * exact_number("B", "1", batch) * OUTPUTS)


def memory(batch: int) -> Quantity:
    """Return the size (B) of parameters and output, which the source calls the layer's memory."""
    return named("parameters and output", PARAMETER_BYTES + output_bytes(batch))


def freed_bytes(batch: int) -> Quantity:
    """Return the bytes freed after a call: output, oneDNN's copy of it, and copy of the input."""
    copied_input = exact_number("B", "1", batch) * INPUT_BYTES
    return named("free bytes", 2 * output_bytes(batch) + copied_input)


def pages(batch: int) -> Quantity:
    """Return the pages that a call maps if its blocks (see ``freed_bytes``) lie at the heap's top.

    A block above the largest mapping threshold has its own pages, and one more for its header.  If
    only the outputs are so large, the copy of the input stays in the heap and is not returned.
    """
    layer = mnist_conv2(batch)
    if work.output_bytes(layer) <= heap.LARGEST_MAPPING_BYTES:
        return named("pages", (freed_bytes(batch) - RESERVE) / PAGE)
    if work.input_bytes(layer) <= heap.LARGEST_MAPPING_BYTES:
        return named("pages", 2 * output_bytes(batch) / PAGE + 2)
    return named("pages", freed_bytes(batch) / PAGE + 3)


def pages_of_top(top_bytes: float, threshold: int) -> float:
    """Return the pages that a call maps if ``top_bytes`` were free at the heap's top before it."""
    # Trimming leaves a reserve mapped; growing adds another reserve, which the call does not use.
    return (top_bytes - 2 * heap.RESERVE_BYTES) / heap.PAGE_BYTES if top_bytes >= threshold else 0.0


def trimming_threshold(factors: Mapping[str, Level]) -> int:
    """Return a case's trimming threshold (B), by default after its first output was freed."""
    if "freed" in factors or "threshold" in factors:
        return heap.trimming_threshold(factors)
    return heap.threshold_after_freeing(int(factors["batch"]) * work.elements(LAYER.output_shape))


def top_bytes_of_image(name: str) -> int:
    """Return the bytes per image that are free at the top of the heap after a call."""
    if name == LARGE_NETWORK:  # see heap.network_mapping_start
        return 3 * work.output_bytes(subject.FIRST_OF_RESNET)
    return heap.freed_bytes(subject.LAYERS[name])


def mapping_start(name: str, trimming: int) -> int:
    """Return the first batch size at which calls may map pages; ``trimming``: threshold (B)."""
    if name == LARGE_NETWORK:
        return ceil(heap.network_mapping_start(subject.FIRST_OF_RESNET, trimming))
    return ceil(heap.mapping_start(subject.LAYERS[name], trimming))


def mapping_end(name: str, trimming: int) -> int:
    """Return the first batch size at which calls of a layer map pages in all processes."""
    return ceil(heap.mapping_end(subject.LAYERS[name], trimming))


#: Predicted batch sizes from which some and all processes map pages after a tensor was freed.
START_AFTER_FREED: Final = mapping_start("layer", subject.RAISED_THRESHOLD)
END_AFTER_FREED: Final = mapping_end("layer", subject.RAISED_THRESHOLD)
