"""What theory says of the example's layer for one image, as quantities over its extents."""

from __future__ import annotations

from typing import Final

from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import counted_in, flops
from report.studies.conv_profiling.subject import BASE

_LAYER = BASE.layer(1)
C_IN = exact("C_in", "1", _LAYER.input_shape[1])
C_OUT = exact("C_out", "1", _LAYER.output_shape[1])
KERNEL = exact("k", "1", _LAYER.kernel[0])
EXTENT = exact("H_in", "1", _LAYER.input_shape[2])
OUT_EXTENT = named("H_out", EXTENT - KERNEL + 1)
_ELEMENT = exact("s", "B", 4)

WEIGHTS = named("weights", KERNEL * KERNEL * C_IN * C_OUT)
PARAMETERS = named("parameters", WEIGHTS + C_OUT)
OUTPUTS = named("output elements", OUT_EXTENT * OUT_EXTENT * C_OUT)
MULTIPLY_ADDS = named("multiply-adds", counted_in("MAC", WEIGHTS * OUT_EXTENT * OUT_EXTENT))
PARAMETER_BYTES = named("parameter bytes", _ELEMENT * PARAMETERS)
OUTPUT_BYTES = named("output bytes", _ELEMENT * OUTPUTS)
#: Parameters and output: the source's memory of one image.
IMAGE_BYTES = named("parameters and output", PARAMETER_BYTES + OUTPUT_BYTES)


def work(batch: int) -> Quantity:
    """Work (FLOP) of a forward call."""
    return named("work", flops(exact("B", "1", batch) * MULTIPLY_ADDS))


def once(batch: int) -> Quantity:
    """Bytes of parameters and output of a batch, with the parameters counted once."""
    return named("parameters and outputs", PARAMETER_BYTES + exact("B", "1", batch) * OUTPUT_BYTES)


def for_every_image(batch: int) -> Quantity:
    """The source's rule: the bytes of one image, parameters included, times the batch size."""
    return named("parameters for every image", exact("B", "1", batch) * IMAGE_BYTES)


VALUES: Final[dict[str, Quantity]] = {
    "kernel": KERNEL,
    "image_extent": exact("extent of an image", "1", BASE.image),
    "macs": MULTIPLY_ADDS,
    "flops": work(1),
    "weights": WEIGHTS,
    "parameters": PARAMETERS,
    "parameter_bytes": PARAMETER_BYTES,
    "outputs": OUTPUTS,
    "output_bytes": OUTPUT_BYTES,
    "image_bytes": IMAGE_BYTES,
}
