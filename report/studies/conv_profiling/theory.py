"""Theory of the example's layer (the second convolution of the MNIST example), from its shape."""

from dataclasses import replace
from functools import cache
from typing import Final

from report.quantity.expression import Quantity, exact_number, named
from report.quantity.operations import counted_in, flops
from report.studies.conv_profiling.subject import EXAMPLE_SHAPE, Dimensions
from report.theory.convolution_workspaces import MANY_IMAGES, SMALL_INPUT_ELEMENTS
from report.theory.work import round_up

_LAYER = EXAMPLE_SHAPE.layer(1)
C_IN = exact_number("C_in", "1", _LAYER.input_shape[1])
C_OUT = exact_number("C_out", "1", _LAYER.output_shape[1])
KERNEL = exact_number("k", "1", _LAYER.kernel[0])
EXTENT = exact_number("H_in", "1", _LAYER.input_shape[2])
_OUT_EXTENT = named("H_out", EXTENT - KERNEL + 1)
_ELEMENT = exact_number("s", "B", 4)

WEIGHTS = named("weights", KERNEL * KERNEL * C_IN * C_OUT)
_INPUTS = named("input elements", EXTENT * EXTENT * C_IN)
OUTPUTS = named("output elements", _OUT_EXTENT * _OUT_EXTENT * C_OUT)
MULTIPLY_ADDS = named("multiply-adds", counted_in("MAC", WEIGHTS * _OUT_EXTENT * _OUT_EXTENT))
OUTPUT_BYTES = named("output bytes", _ELEMENT * OUTPUTS)
#: The memory of one image as the source estimates it: parameters and output.
_IMAGE_BYTES = named("parameters and output", _ELEMENT * (WEIGHTS + C_OUT) + OUTPUT_BYTES)


@cache
def work(batch: int) -> Quantity:
    """Return the work (FLOP) of a forward call."""
    return named("work", flops(exact_number("B", "1", batch) * MULTIPLY_ADDS))


def seen_operations(batch: int) -> Quantity:
    """Return the operations (FLOP) that CUDA cores execute in a forward call on tensor cores.

    Copies of input and weights multiply each element once.  Each output has an addition, a
    multiplication, and a fused multiply-add with the bias.
    """
    images = exact_number("B", "1", batch)
    count = images * _INPUTS + WEIGHTS + 4 * images * OUTPUTS
    return named("operations seen", counted_in("FLOP", count))


def source_memory(batch: int) -> Quantity:
    """Return the source's estimate of memory (B): ``batch`` · (parameters + output of an image)."""
    return named("parameters for every image", exact_number("B", "1", batch) * _IMAGE_BYTES)


def in_blocks(shape: Dimensions, block: int) -> Dimensions:
    """Return the shape that oneDNN computes, whose channels fill blocks.

    oneDNN does not put fewer input channels than one block into blocks.
    """
    inputs = shape.inputs if shape.inputs < block else round_up(shape.inputs, block)
    return replace(shape, inputs=inputs, outputs=round_up(shape.outputs, block))


def work_ratio(shape: Dimensions, reference: Dimensions, block: int) -> Quantity:
    """Divide the work of two calls whose channels fill whole blocks; a block of 1 adds no work."""
    dividend, divisor = (in_blocks(item, block).multiply_adds(1) for item in (shape, reference))
    return exact_number("work", "MAC", dividend) / exact_number("work", "MAC", divisor)


#: Rules (formulas) for executed work on a CPU: the calls that a rule is for, the rule, and an
#: example with the shape, the batch size, and the factors of a held-out call.
RULES: Final = (
    (f"one image of at most {SMALL_INPUT_ELEMENTS:,} elements, kernel up to 3 × 3",
     "MKL: images · (taps · inputs · positions in whole vectors of 8 · fused outputs + 1)",
     Dimensions(9, 19, 3, 21), 1, "1·(9·9·296·18 + 1)"),
    (f"kernel 1 × 1, below {MANY_IMAGES} images", "the same",
     Dimensions(12, 26, 1, 27), 8, "8·(1·12·632·24 + 1)"),
    ("all others", "oneDNN: images · positions · taps · inputs in whole blocks of 8 · outputs in "
     "whole blocks of 8", Dimensions(9, 19, 3, 21), 8, "8·289·9·16·24"),
)  # fmt: skip
