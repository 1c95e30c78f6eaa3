"""The numbers of conv_scaling's prose that need no run: of theory and of the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.values import Value
from report.statistics.estimates import CONFIDENCE, Estimate, LinearFit
from report.studies.conv_scaling.source import memory_fit, numbers, reported_batches, work_fit
from report.studies.conv_scaling.subject import footprint, multiply_adds, operations, subject
from report.text.format import Number
from report.theory.memory import arithmetic_intensity, input_bytes
from report.theory.shapes import bias_count, elements, parameter_count, weight_count
from report.theory.work import macs

#: The largest batch that the experiment plans to run.
MANY: Final = 1024

_WEIGHTS: Final = "K_h · K_w · C_in · C_out"
_INTENSITY: Final = "work / (input + parameters + output)"
_LINE: Final = "least squares over the batch size"


def theory_values() -> tuple[Value, ...]:
    """What follows from the geometry alone."""
    return (*_geometry(), *_work(), *_memory())


def _geometry() -> tuple[Value, ...]:
    layer = subject(1)
    return (
        _exact("in_channels", "Input channels", layer.input_shape[1], "1", "geometry"),
        _exact("out_channels", "Output channels", layer.output_shape[1], "1", "geometry"),
        _exact("kernel", "Kernel extent", layer.kernel[0], "1", "geometry"),
        _exact("in_extent", "Input extent", layer.input_shape[2], "1", "geometry"),
        _exact("out_extent", "Output extent", layer.output_shape[2], "1", "(H_in + 2P − K)/S + 1"),
        _exact("many", "Largest planned batch", MANY, "1", "plan of the experiment"),
        Value(
            "confidence", "Confidence of the intervals", CONFIDENCE, "1", "chosen", (), "percent"
        ),
    )


def _work() -> tuple[Value, ...]:
    layer = subject(1)
    training = operations(1, "forward_backward") // operations(1)
    every = "(forward + weight gradient + input gradient) / forward"
    one, many = arithmetic_intensity(layer), arithmetic_intensity(subject(MANY))
    return (
        _exact(
            "macs", "Multiply-adds of an image", macs(layer), "MAC", _WEIGHTS + " · H_out · W_out"
        ),
        _exact("flops", "Work of an image", operations(1), "FLOP", "2 · multiply-adds"),
        _exact("training_ratio", "Work of forward and backward over forward", training, "1", every),
        Value("intensity_one", "Intensity of an image", one, "FLOP/B", _INTENSITY),
        Value(
            "intensity_many", "Intensity of the largest planned batch", many, "FLOP/B", _INTENSITY
        ),
    )


def _memory() -> tuple[Value, ...]:
    layer, size = subject(1), footprint(1)
    outputs, read = elements(layer.output_shape), input_bytes(layer)
    return (
        _exact("weights", "Weights", weight_count(layer), "1", _WEIGHTS),
        _exact("biases", "Biases", bias_count(layer), "1", "C_out"),
        _exact("parameters", "Parameters", parameter_count(layer), "1", _WEIGHTS + " + C_out"),
        _exact(
            "parameter_bytes", "Bytes of the parameters", size.parameters, "B", "4 · parameters"
        ),
        _exact("outputs", "Output elements of an image", outputs, "1", "H_out · W_out · C_out"),
        _exact("output_bytes", "Output of an image", size.output, "B", "4 · output elements"),
        _exact("input_bytes", "Input of an image", read, "B", "4 · C_in · H_in · W_in"),
    )


def reported_values(inputs: Inputs) -> tuple[Value, ...]:
    """What follows from the source's tables."""
    return (*_plan(inputs), *_counted(inputs), *_allocated(inputs))


def _plan(inputs: Inputs) -> tuple[Value, ...]:
    origin, batches = (inputs.reported_file,), reported_batches(inputs.reported)
    return (
        _exact("reported_smallest", "Smallest reported batch", batches[0], "1", "Table I", origin),
        _exact("reported_largest", "Largest reported batch", batches[-1], "1", "Table I", origin),
        _exact(
            "reported_count", "Number of reported batch sizes", len(batches), "1", "Table I", origin
        ),
    )


#: What the source's counters are divided by: id, name, formula.
_QUOTIENTS: Final = (
    (
        "excess_per_output",
        "Excess operations for each output element",
        "(reported − theory) / (B · output elements)",
    ),
    (
        "adds_per_output",
        "Counted additions for each output element",
        "Table III, add / (B · output elements)",
    ),
    (
        "multiplies_per_output",
        "Counted multiplications for each output element",
        "Table III, multiply / (B · output elements)",
    ),
    (
        "fused_per_mac",
        "Counted multiply-adds for each theoretical one",
        "Table III, multiply-add / theoretical multiply-adds",
    ),
)


def _counted(inputs: Inputs) -> tuple[Value, ...]:
    origin, batches = (inputs.reported_file,), reported_batches(inputs.reported)
    theory = [operations(batch) for batch in batches]
    outputs = [elements(subject(batch).output_shape) for batch in batches]
    total = numbers(inputs.reported, "III", "total_flops")
    excess = [counted - expected for counted, expected in zip(total, theory, strict=True)]
    share, formula = _same_quotient(excess, theory), "(reported − theory) / theory"
    found: dict[str, tuple[Sequence[int], Sequence[int]]] = {
        "excess_per_output": (excess, outputs),
        "adds_per_output": (numbers(inputs.reported, "III", "add"), outputs),
        "multiplies_per_output": (numbers(inputs.reported, "III", "multiply"), outputs),
        "fused_per_mac": (
            numbers(inputs.reported, "III", "multiply_add"),
            [multiply_adds(batch) for batch in batches],
        ),
    }
    return (
        *(
            _exact(id_, name, _same_quotient(*found[id_]), "1", formula, origin)
            for id_, name, formula in _QUOTIENTS
        ),
        Value("excess_share", "Reported work above theory", share, "1", formula, origin, "percent"),
        *_line_values("reported_work", work_fit(inputs), "FLOP", origin),
    )


def _allocated(inputs: Inputs) -> tuple[Value, ...]:
    origin, batches = (inputs.reported_file,), reported_batches(inputs.reported)
    allocated = numbers(inputs.reported, "IV", "allocated_memory")
    theory = [footprint(batch).parameters_and_output for batch in batches]
    gap = _same([t - a for t, a in zip(theory, allocated, strict=True)])
    return (
        _exact("memory_gap", "Theory above reported memory", gap, "B", "theory − reported", origin),
        *_line_values("reported_memory", memory_fit(inputs), "B", origin),
    )


def _line_values(
    id_: str, fit: LinearFit, unit: str, origin: tuple[str, ...]
) -> tuple[Value, Value]:
    name = id_.replace("_", " ")
    slope, intercept = whole(fit.slope), whole(fit.intercept)
    return (
        _exact(f"{id_}_slope", f"Slope of the {name}", slope, unit, _LINE, origin),
        _exact(f"{id_}_intercept", f"Intercept of the {name}", intercept, unit, _LINE, origin),
    )


def _exact(
    id_: str,
    name: str,
    number: Number | Estimate | Missing,
    unit: str,
    formula: str,
    origin: tuple[str, ...] = (),
) -> Value:
    """A value that is printed in full, without a prefix before its unit."""
    return Value(id_, name, number, unit, formula, origin, "exact")


def whole(estimate: Estimate) -> Number | Estimate:
    """A coefficient that exact data determine exactly, as the whole number that it is."""
    exact = estimate.low == estimate.high == round(estimate.value)
    return int(estimate.value) if exact else estimate


def _same_quotient(above: Sequence[int], below: Sequence[int]) -> Number | Missing:
    return _same([a / b for a, b in zip(above, below, strict=True)])


def _same(column: Sequence[float]) -> Number | Missing:
    """A number that is the same in every row of a table; where it is not, it is missing."""
    first = column[0]
    if any(number != first for number in column):
        return Missing(f"differs between rows, from {min(column):,.6g} to {max(column):,.6g}")
    return int(first) if first == int(first) else first
