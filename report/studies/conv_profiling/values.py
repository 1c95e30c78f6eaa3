"""The numbers of conv_profiling's prose that follow from the geometry, and how values are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from report.missing import Missing
from report.paper.values import Value, declare, exact
from report.quantity.expression import Quantity, absent
from report.quantity.expression import exact as exact_leaf
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
#: Values that are printed as shares.
_PERCENT: Final = frozenset(
    {
        "test_accuracy",
        "other_accuracy",
        "conv_work",
        "conv_time",
        "work_share",
        "parameter_share",
        "gpu_tensor",
    }
)


def whole(number: float) -> Number:
    """A number as the whole number that it is, if it is one."""
    return int(number) if number == int(number) else number


def known(formula: str, number: Number | Missing, unit: str = "1", source: str = "") -> Quantity:
    """A number without uncertainty as a quantity, with its formula; absent where it is missing."""
    if isinstance(number, Missing):
        return absent(formula, unit, number.reason)
    return exact_leaf(formula, unit, number, source)


def declared(quantities: Mapping[str, Quantity]) -> Iterator[Value]:
    """The values of this study under these ids."""
    for id_, quantity in quantities.items():
        yield declare(id_, quantity, "percent" if id_ in _PERCENT else None)


def theory_values() -> tuple[Value, ...]:
    """What follows from the geometry alone."""
    layer, size = BASE.layer(1), layer_memory(BASE.layer(1))
    training = BASE.operations(1, "forward_backward") // BASE.operations(1)
    found = {
        "in_channels": known("geometry", layer.input_shape[1]),
        "out_channels": known("geometry", layer.output_shape[1]),
        "kernel": known("geometry", layer.kernel[0]),
        "in_extent": known("geometry", layer.input_shape[2]),
        "out_extent": known("(H_in − k)/s + 1", layer.output_shape[2]),
        "image_extent": known("geometry", BASE.image),
        "macs": known("k² · C_in · H² · C_out", macs(layer), "MAC"),
        "flops": known("2 · multiply-adds", BASE.operations(1), "FLOP"),
        "weights": known("k² · C_in · C_out", weight_count(layer)),
        "biases": known("C_out", bias_count(layer)),
        "parameters": known("(k² · C_in + 1) · C_out", parameter_count(layer)),
        "parameter_bytes": known("4 · parameters", size.parameters, "B"),
        "outputs": known("H² · C_out", elements(layer.output_shape)),
        "output_bytes": known("4 · output elements", size.output, "B"),
        "input_bytes": known("4 · C_in · H_in²", input_bytes(layer), "B"),
        "image_bytes": known("4 · (parameters + output elements)", size.parameters_and_output, "B"),
        "training_ratio": known("3", training),
        "many": known("plan of the experiment", MANY),
    }
    confidence = exact("confidence", "Confidence", CONFIDENCE, "1", "chosen", (), "percent")
    return (*declared(found), confidence)
