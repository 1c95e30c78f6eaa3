"""The layer of conv_scaling at a batch size: its cases in records, and its theory as quantities."""

import math
from collections.abc import Mapping
from typing import Final

from report.core.records.layers import Convolution
from report.core.records.record import PASSES, Level, Pass
from report.core.records.store import Stored
from report.evidence.case_checks import AllowedLevels, check_factors, check_ran
from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import counted_in, flops
from report.theory import heap, work
from report.theory.conditions import Layout
from report.theory.work import mnist_conv2, square_convolution

LAYOUTS: Final[tuple[Layout, ...]] = ("contiguous", "channels_last")
#: The batch size whose call the prose describes.
SHOWN_BATCH: Final = 64

#: Subject of a case → its required factors.  ``cliff``: layers at batch sizes around the predicted
#: start of page mapping; ``edge``: the same at many batch sizes around one start; ``cure``:
#: networks before and after one large tensor was freed; ``sweep``: the same over batch sizes;
#: ``avx2``: in older records only.
_FACTORS_BY_SUBJECT: Final[dict[str, dict[str, AllowedLevels]]] = {
    "layer": {"batch": int, "pass": PASSES, "layout": LAYOUTS},
    "top": {"layer": str, "batch": int},
    "network": {},
    "avx2": {},
    "variant": {"variant": str, "batch": int},
    "cliff": {"layer": str, "batch": int},
    "edge": {"layer": str, "batch": int},
    "sweep": {"network": str, "batch": int},
    "cure": {"network": str, "mode": str, "batch": int},
}


def macs_of(batch: int, pass_: Pass = "forward") -> work.Macs:
    """Multiply-adds of one call; the backward pass adds two gradients of equal work."""
    return work.Macs(work.macs(mnist_conv2(batch)) * (1 if pass_ == "forward" else 3))


def _layer_of(factors: Mapping[str, Level]) -> Convolution:
    return mnist_conv2(int(factors["batch"]))


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` if a case does not belong to this study or ran a different layer."""
    check_factors(stored, _FACTORS_BY_SUBJECT, closed={"layer"})
    check_ran(stored, _layer_of, subject="layer")


# --------------------------------------------------------------------------- work and memory

_IMAGE: Final = mnist_conv2(1)
C_IN = exact("C_in", "1", _IMAGE.input_shape[1])
C_OUT = exact("C_out", "1", _IMAGE.output_shape[1])
KERNEL = exact("K_h", "1", _IMAGE.kernel[0])
H_IN = exact("H_in", "1", _IMAGE.input_shape[2])
W_IN = exact("W_in", "1", _IMAGE.input_shape[3])
H_OUT, W_OUT = named("H_out", H_IN - KERNEL + 1), named("W_out", W_IN - KERNEL + 1)
ELEMENT = exact("s", "B", 4)
WEIGHTS = named("weights", KERNEL * exact("K_w", "1", _IMAGE.kernel[1]) * C_IN * C_OUT)
PARAMETERS = named("parameters", WEIGHTS + C_OUT)
OUTPUTS = named("output elements", H_OUT * W_OUT * C_OUT)
PARAMETER_BYTES = named("parameter bytes", ELEMENT * PARAMETERS)
_IMAGE_MACS = named("multiply-adds", counted_in("MAC", WEIGHTS * H_OUT * W_OUT))


def _images(batch: int) -> Quantity:
    return exact("B", "1", batch)


def multiply_adds(batch: int) -> Quantity:
    """Multiply-adds (MAC) of a forward call."""
    return _IMAGE_MACS if batch == 1 else named("multiply-adds", _images(batch) * _IMAGE_MACS)


def forward_work(batch: int) -> Quantity:
    """Work (FLOP) of a forward call."""
    return named("forward work", flops(multiply_adds(batch)))


def output_bytes(batch: int) -> Quantity:
    """Bytes of the output."""
    return named("output bytes", ELEMENT * _images(batch) * OUTPUTS)


def memory(batch: int) -> Quantity:
    """Bytes of parameters and output: the source's rule for the memory of the layer."""
    return named("parameters and output", PARAMETER_BYTES + output_bytes(batch))


# ------------------------------------------------------------------------------ freed memory

#: Bytes that the heap keeps when it is trimmed, and the size of a page on all CPUs.
RESERVE = exact("reserve", "B", heap.RESERVE)
PAGE = exact("page", "B", heap.PAGE)
#: Pages of the copy of the weights.
WEIGHT_PAGES: Final = 18
#: Alignment of PyTorch's tensors (B).
ALIGNMENT: Final = 64
#: A call that maps no more pages returns no memory: a forked child copies some.
FEW_PAGES: Final = heap.RESERVE // heap.PAGE

#: Elements of the freed tensor, and the trimming threshold (B) after it was freed.
FREED: Final = 8_000_000
RAISED = exact("raised threshold", "B", heap.raised_trimming(FREED))
#: Images of a call up to which no process then maps pages, and beyond which all do.
START_AFTER_FREED: Final = heap.mapping_start(_IMAGE, heap.raised_trimming(FREED))
LAST_WITHOUT_PAGES: Final = math.floor(START_AFTER_FREED)
ALL_MAP_BEYOND: Final = math.floor(heap.mapping_end(_IMAGE, heap.raised_trimming(FREED)))
#: Images up to which no process maps pages if no tensor was freed, and from which all do.
LAST_BY_DEFAULT, ALL_BY_DEFAULT = 4, 8
#: The first convolution of ResNet-18 on one image.
_FIRST_OF_RESNET: Final = square_convolution(
    "conv", (1, 3, 224, 224), 64, kernel=7, stride=2, padding=3
)


def freed_bytes(batch: int) -> Quantity:
    """Bytes that are free when a call and its result are over: two outputs and a copy of the input.

    oneDNN copies the input into blocks of channels, computes an output in blocks, and copies that
    into the output.
    """
    inputs = named("input bytes", ELEMENT * _images(batch) * C_IN * H_IN * W_IN)
    return named("free bytes", 2 * output_bytes(batch) + inputs)


def pages(batch: int) -> Quantity:
    """Pages that a call maps if its outputs and its copy of the input lie at the top of the heap.

    Larger blocks are mapped by themselves, each with a page more for its header.  Where both
    outputs are and the copy of the input is not, it is too small to be returned.
    """
    layer = mnist_conv2(batch)
    if work.output_bytes(layer) <= heap.LARGEST_MAPPING:
        return named("pages", (freed_bytes(batch) - RESERVE) / PAGE)
    if work.input_bytes(layer) <= heap.LARGEST_MAPPING:
        return named("pages", 2 * output_bytes(batch) / PAGE + 2)
    return named("pages", freed_bytes(batch) / PAGE + 3)


def network_last_without_pages(elements: int) -> int:
    """Largest batch size of ResNet-18 without pages after a tensor of ``elements`` was freed."""
    trimming = heap.raised_trimming(elements)
    return math.floor(heap.network_mapping_start(_FIRST_OF_RESNET, trimming))
