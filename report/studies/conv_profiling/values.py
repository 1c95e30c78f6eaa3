"""The numbers of conv_profiling's prose that follow from the geometry, and how values are made."""

from __future__ import annotations

from typing import Final

from report.paper.values import Value, exact
from report.statistics.estimates import CONFIDENCE
from report.studies.conv_profiling.subject import BASE
from report.text.format import Number
from report.theory.memory import input_bytes, layer_memory
from report.theory.shapes import bias_count, elements, parameter_count, weight_count
from report.theory.work import macs

#: The largest batch that the experiment plans to run.
MANY: Final = 512
#: The formula of numbers that a record holds as they are.
CASES: Final = "cases of the record"


def whole(number: float) -> Number:
    """A number as the whole number that it is, if it is one."""
    return int(number) if number == int(number) else number


def theory_values() -> tuple[Value, ...]:
    """What follows from the geometry alone."""
    layer, size = BASE.layer(1), layer_memory(BASE.layer(1))
    training = BASE.operations(1, "forward_backward") // BASE.operations(1)
    return (
        exact("in_channels", "Input channels", layer.input_shape[1], "1", "geometry"),
        exact("out_channels", "Output channels", layer.output_shape[1], "1", "geometry"),
        exact("kernel", "Kernel extent", layer.kernel[0], "1", "geometry"),
        exact("in_extent", "Input extent", layer.input_shape[2], "1", "geometry"),
        exact("out_extent", "Output extent", layer.output_shape[2], "1", "(H_in − k)/s + 1"),
        exact("image_extent", "Extent of an image", BASE.image, "1", "geometry"),
        exact("macs", "Multiply-adds of an image", macs(layer), "MAC", "k² · C_in · H² · C_out"),
        exact("flops", "Work of an image", BASE.operations(1), "FLOP", "2 · multiply-adds"),
        exact("weights", "Weights", weight_count(layer), "1", "k² · C_in · C_out"),
        exact("biases", "Biases", bias_count(layer), "1", "C_out"),
        exact("parameters", "Parameters", parameter_count(layer), "1", "(k² · C_in + 1) · C_out"),
        exact("parameter_bytes", "Bytes of the parameters", size.parameters, "B", "4 · parameters"),
        exact("outputs", "Output elements", elements(layer.output_shape), "1", "H² · C_out"),
        exact("output_bytes", "Output of an image", size.output, "B", "4 · output elements"),
        exact("input_bytes", "Input of an image", input_bytes(layer), "B", "4 · C_in · H_in²"),
        exact(
            "image_bytes",
            "Parameters and output of an image",
            size.parameters_and_output,
            "B",
            "4 · (parameters + output elements)",
        ),
        exact("training_ratio", "Work of forward and backward over forward", training, "1", "3"),
        exact("many", "Largest planned batch", MANY, "1", "plan of the experiment"),
        Value(
            "confidence", "Confidence of the intervals", CONFIDENCE, "1", "chosen", (), "percent"
        ),
    )
