"""Theory of conv_scaling: work, bytes and pages that follow from shapes."""

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
RESERVE = exact_number("reserve", "B", heap.RESERVE)
#: Size of a page, the same on all CPUs.
PAGE = exact_number("page", "B", heap.PAGE)


def multiply_adds(batch: int) -> Quantity:
    """Multiply-adds (MAC) of a forward call."""
    return named("multiply-adds", exact_number("B", "1", batch) * IMAGE_MACS)


def forward_work(batch: int) -> Quantity:
    """Work (FLOP) of a forward call."""
    return named("forward work", flops(multiply_adds(batch)))


def output_bytes(batch: int) -> Quantity:
    """Bytes of the output."""
    return named("output bytes", ELEMENT * exact_number("B", "1", batch) * OUTPUTS)


def memory(batch: int) -> Quantity:
    """Bytes of parameters and output: the layer's memory by the rule of the paper's source."""
    return named("parameters and output", PARAMETER_BYTES + output_bytes(batch))


def freed_bytes(batch: int) -> Quantity:
    """Bytes freed after a call: output, oneDNN's output in blocks (as large), copy of the input."""
    return named(
        "free bytes", 2 * output_bytes(batch) + exact_number("B", "1", batch) * INPUT_BYTES
    )


def pages(batch: int) -> Quantity:
    """Pages that a call maps if both outputs and the copy of the input lie at the top of the heap.

    A block above the largest mapping threshold has its own pages, and one more for its header.  If
    only the outputs are so large, the copy of the input stays in the heap and is not returned.
    """
    layer = mnist_conv2(batch)
    if work.output_bytes(layer) <= heap.LARGEST_MAPPING:
        return named("pages", (freed_bytes(batch) - RESERVE) / PAGE)
    if work.input_bytes(layer) <= heap.LARGEST_MAPPING:
        return named("pages", 2 * output_bytes(batch) / PAGE + 2)
    return named("pages", freed_bytes(batch) / PAGE + 3)


def pages_of_top(top: float, threshold: int) -> float:
    """Pages that a call maps if ``top`` bytes were free at the top of the heap before trimming."""
    # Trimming leaves one reserve mapped; growing adds another reserve, which the call does not use.
    return (top - 2 * heap.RESERVE) / heap.PAGE if top >= threshold else 0.0


def trimming_threshold(factors: Mapping[str, Level]) -> int:
    """Trimming threshold (B) of a case; if none was set, the first freed output raises it."""
    if "freed" in factors or "threshold" in factors:
        return heap.trimming_threshold(factors)
    return heap.threshold_after_freeing(int(factors["batch"]) * work.elements(LAYER.output_shape))


def top_bytes_of_image(name: str) -> int:
    """Bytes per image that are free at the top of the heap after a call of a layer or ResNet-18."""
    if name == LARGE_NETWORK:  # see heap.network_mapping_start
        return 3 * work.output_bytes(subject.FIRST_OF_RESNET)
    return heap.freed_bytes(subject.LAYERS[name])


def mapping_start(name: str, trimming: int) -> int:
    """First batch size at which calls may map pages; ``trimming``: the trimming threshold (B)."""
    if name == LARGE_NETWORK:
        return ceil(heap.network_mapping_start(subject.FIRST_OF_RESNET, trimming))
    return ceil(heap.mapping_start(subject.LAYERS[name], trimming))


def mapping_end(name: str, trimming: int) -> int:
    """First batch size at which calls of a layer map pages in all processes."""
    return ceil(heap.mapping_end(subject.LAYERS[name], trimming))


#: Predicted batch sizes from which some and all processes map pages after a tensor was freed.
START_AFTER_FREED: Final = mapping_start("layer", subject.RAISED_THRESHOLD)
END_AFTER_FREED: Final = mapping_end("layer", subject.RAISED_THRESHOLD)
