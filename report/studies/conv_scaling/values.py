"""The numbers of conv_scaling's prose: of theory, of the source, and of one run."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias

from report.format import Number, Style
from report.layers import Layer
from report.memory import arithmetic_intensity, input_bytes
from report.missing import Missing, present
from report.paper import Inputs
from report.reported import Reported
from report.shapes import bias_count, elements, parameter_count, weight_count
from report.statistics import (
    CONFIDENCE,
    Estimate,
    growth_exponent,
    linear_fit,
    rate_over,
    ratio_of_medians,
)
from report.studies.conv_scaling.measured import Run, known
from report.studies.conv_scaling.subject import (
    PASSES,
    Pass,
    footprint,
    multiply_adds,
    operations,
    subject,
)
from report.studies.conv_scaling.tables import NO_RECORD, network_layers, reported_batches
from report.values import Value
from report.work import forward_macs, macs

#: A batch size counts as saturated when its rate is at least this share of the best one.
SATURATED: Final = 0.9


def theory_values() -> tuple[Value, ...]:
    """What follows from the geometry alone."""
    layer, size = subject(1), footprint(1)
    weights = "K_h · K_w · C_in · C_out"
    outputs = elements(layer.output_shape)
    many = 1024
    formula = "work / (input + parameters + output)"

    def exact(id_: str, name: str, number: Number, unit: str, formula: str) -> Value:
        return Value(id_, name, number, unit, formula, style="exact")

    return (
        exact("in_channels", "Input channels", layer.input_shape[1], "1", "geometry"),
        exact("out_channels", "Output channels", layer.output_shape[1], "1", "geometry"),
        exact("kernel", "Kernel extent", layer.kernel[0], "1", "geometry"),
        exact("in_extent", "Input extent", layer.input_shape[2], "1", "geometry"),
        exact("out_extent", "Output extent", layer.output_shape[2], "1", "(H_in + 2P − K)/S + 1"),
        exact(
            "macs", "Multiply-adds of an image", macs(layer), "MAC", f"{weights} · H_out · W_out"
        ),
        exact("flops", "Work of an image", operations(1), "FLOP", "2 · multiply-adds"),
        exact("weights", "Weights", weight_count(layer), "1", weights),
        exact("biases", "Biases", bias_count(layer), "1", "C_out"),
        exact("parameters", "Parameters", parameter_count(layer), "1", f"{weights} + C_out"),
        exact("parameter_bytes", "Bytes of the parameters", size.parameters, "B", "4 · parameters"),
        exact("outputs", "Output elements of an image", outputs, "1", "H_out · W_out · C_out"),
        exact("output_bytes", "Output of an image", size.output, "B", "4 · output elements"),
        exact(
            "input_bytes", "Input of an image", input_bytes(layer), "B", "4 · C_in · H_in · W_in"
        ),
        exact(
            "training_ratio",
            "Work of forward and backward over forward",
            operations(1, "forward_backward") // operations(1),
            "1",
            "(forward + weight gradient + input gradient) / forward",
        ),
        Value(
            "confidence", "Confidence of the intervals", CONFIDENCE, "1", "chosen", (), "percent"
        ),
        exact("many", "Largest planned batch", many, "1", "plan of the experiment"),
        Value(
            "intensity_one", "Intensity of an image", arithmetic_intensity(layer), "FLOP/B", formula
        ),
        Value(
            "intensity_many",
            "Intensity of the largest planned batch",
            arithmetic_intensity(subject(many)),
            "FLOP/B",
            formula,
        ),
    )


def network_values(inputs: Inputs) -> tuple[Value, ...]:
    """The layer's share of the network, from the shapes that ran."""
    layers = network_layers(inputs)
    origin = tuple(item.file for item in inputs.records[:1]) if layers else ()

    def of(layers: tuple[Layer, ...], number: Number) -> Number | Missing:
        return number if layers else NO_RECORD

    parameters = sum(parameter_count(layer) for layer in layers)
    images = layers[0].input_shape[0] if layers else 1
    ours = subject(images)
    return (
        Value(
            "network_parameters",
            "Parameters of the network",
            of(layers, parameters),
            "1",
            "sum over the recorded layers",
            origin,
            "exact",
        ),
        Value(
            "work_share",
            "The layer's share of the network's multiply-adds",
            of(layers, macs(ours) / max(forward_macs(layers), 1)),
            "1",
            "MACs of the layer / MACs of all recorded layers",
            origin,
            "percent",
        ),
        Value(
            "parameter_share",
            "The layer's share of the network's parameters",
            of(layers, parameter_count(ours) / max(parameters, 1)),
            "1",
            "parameters of the layer / of all recorded layers",
            origin,
            "percent",
        ),
    )


def numbers(reported: Reported, table: str, column: str) -> tuple[int, ...]:
    """A column of whole numbers of the source."""
    return tuple(int(str(number)) for number in reported.table(table).column(column))


def reported_values(inputs: Inputs) -> tuple[Value, ...]:
    """What follows from the source's tables."""
    reported, origin = inputs.reported, (inputs.reported_file,)
    batches = reported_batches(reported)
    counted = numbers(reported, "III", "total_flops")
    allocated = numbers(reported, "IV", "allocated_memory")
    excess = [c - operations(b) for b, c in zip(batches, counted, strict=True)]
    each = [
        e / (b * elements(subject(1).output_shape)) for b, e in zip(batches, excess, strict=True)
    ]
    gaps = [footprint(b).parameters_and_output - a for b, a in zip(batches, allocated, strict=True)]
    work, memory = (linear_fit(batches, y, relative=False) for y in (counted, allocated))
    line = "least squares over the batch size"

    def exact(
        id_: str, name: str, number: Number | Estimate | Missing, unit: str, formula: str
    ) -> Value:
        return Value(id_, name, number, unit, formula, origin, "exact")

    return (
        exact("reported_smallest", "Smallest reported batch", batches[0], "1", "Table I"),
        exact("reported_largest", "Largest reported batch", batches[-1], "1", "Table I"),
        exact("reported_count", "Number of reported batch sizes", len(batches), "1", "Table I"),
        exact(
            "excess_per_output",
            "Excess operations for each output element",
            _constant(each),
            "1",
            "(reported − theory) / (B · output elements)",
        ),
        exact(
            "adds_per_output",
            "Counted additions for each output element",
            _each_output(reported, "add"),
            "1",
            "Table III, add / (B · output elements)",
        ),
        exact(
            "multiplies_per_output",
            "Counted multiplications for each output element",
            _each_output(reported, "multiply"),
            "1",
            "Table III, multiply / (B · output elements)",
        ),
        exact(
            "fused_per_mac",
            "Counted multiply-adds for each theoretical one",
            _constant(
                [
                    count / multiply_adds(batch)
                    for batch, count in zip(
                        batches, numbers(reported, "III", "multiply_add"), strict=True
                    )
                ]
            ),
            "1",
            "Table III, multiply-add / theoretical multiply-adds",
        ),
        Value(
            "excess_share",
            "Reported work above theory",
            _constant([e / operations(b) for b, e in zip(batches, excess, strict=True)]),
            "1",
            "(reported − theory) / theory",
            origin,
            "percent",
        ),
        exact(
            "memory_gap", "Theory above reported memory", _constant(gaps), "B", "theory − reported"
        ),
        exact(
            "reported_work_slope", "Slope of the reported work", _whole(work.slope), "FLOP", line
        ),
        exact(
            "reported_work_intercept",
            "Intercept of the reported work",
            _whole(work.intercept),
            "FLOP",
            line,
        ),
        exact(
            "reported_memory_slope", "Slope of the reported memory", _whole(memory.slope), "B", line
        ),
        exact(
            "reported_memory_intercept",
            "Intercept of the reported memory",
            _whole(memory.intercept),
            "B",
            line,
        ),
    )


def _each_output(reported: Reported, column: str) -> Number | Missing:
    """A column of the source's counters, for each output element of the batch."""
    counts = zip(reported_batches(reported), numbers(reported, "III", column), strict=True)
    return _constant([count / elements(subject(batch).output_shape) for batch, count in counts])


def _whole(estimate: Estimate) -> Number | Estimate:
    """A coefficient that exact data determine exactly, as the whole number that it is."""
    exact = estimate.low == estimate.high == round(estimate.value)
    return int(estimate.value) if exact else estimate


def _constant(column: list[float] | list[int]) -> Number | Missing:
    """A number that is the same in every row of a table; where it is not, it is missing."""
    first = column[0]
    if any(number != first for number in column):
        return Missing(f"differs between rows, from {min(column):,.6g} to {max(column):,.6g}")
    return int(first) if first == int(first) else first


#: What the prose says of the run it speaks about: id, name, unit, formula.
_RUN: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("smallest", "Smallest measured batch", "1", "cases of the record"),
    ("largest", "Largest measured batch", "1", "cases of the record"),
    ("time_smallest", "Forward time at the smallest batch", "s", "median of the samples"),
    ("time_largest", "Forward time at the largest batch", "s", "median of the samples"),
    ("per_image_smallest", "Time an image, smallest batch", "s", "median time / batch"),
    ("per_image_largest", "Time an image, largest batch", "s", "median time / batch"),
    ("batch_gain", "Gain in rate from the smallest to the largest batch", "1", "ratio of rates"),
    ("best_batch", "Batch size of the highest forward rate", "1", "largest median rate"),
    ("best_rate", "Highest forward rate", "FLOP/s", "theoretical work / median time"),
    ("best_share", "Highest share of the ceiling", "1", "rate / ceiling of the matrix product"),
    ("saturated", "Smallest saturated batch", "1", "first rate of at least 0.9 of the best"),
    ("backward_ratio", "Forward and backward over forward", "1", "ratio of medians, largest batch"),
    ("ceiling", "Ceiling of the matrix product", "FLOP/s", "work / median time, better moment"),
    ("ceiling_before", "Ceiling before the series", "FLOP/s", "work / median time"),
    ("ceiling_after", "Ceiling after the series", "FLOP/s", "work / median time"),
    ("copy", "Ceiling of the copy", "B/s", "bytes read and written / median time"),
    ("ridge", "Measured ridge point", "FLOP/B", "ceiling of the product / ceiling of the copy"),
    ("time_slope", "Forward time of an image, fitted", "s", "slope of the weighted line"),
    ("time_intercept", "Forward time at no image, fitted", "s", "intercept of the weighted line"),
    ("time_bound", "Bound on the time of an image", "s", "work of an image / ceiling"),
    ("exponent", "Growth exponent of the forward time", "1", "slope of log time over log batch"),
    ("held_slope", "Held bytes of an image, fitted", "B", "slope of the line"),
    ("held_intercept", "Held bytes at no image, fitted", "B", "intercept of the line"),
    ("peak_slope", "Peak bytes of an image, fitted", "B", "slope of the line"),
    ("peak_over_output", "Peak over output", "1", "peak / bytes of the output, largest batch"),
    ("fewest_samples", "Fewest samples of a case", "1", "count"),
)
_EXACT: Final = frozenset({"smallest", "largest", "best_batch", "saturated", "fewest_samples"})
_EXACT_BYTES: Final = frozenset({"held_slope", "held_intercept", "peak_slope"})
_PERCENT: Final = frozenset({"best_share"})


def run_values(run: Run | None) -> tuple[Value, ...]:
    """What the prose says of the run that it speaks about; all missing where there is none."""
    if run is None or not run.measured_batches("forward"):
        why = NO_RECORD if run is None else Missing(f"no call could be timed on {run.label}")
        return tuple(Value(id_, name, why, unit, formula) for id_, name, unit, formula in _RUN)
    found = {**_times(run), **_rates(run), **_ceilings(run), **_lines(run), **_memory(run)}
    return tuple(
        Value(id_, name, found[id_], unit, formula, (run.file,), _style(id_))
        for id_, name, unit, formula in _RUN
    )


def _style(id_: str) -> Style:
    if id_ in _PERCENT:
        return "percent"
    return "exact" if id_ in _EXACT | _EXACT_BYTES else "measured"


Finding: TypeAlias = Number | Estimate | Missing


def _times(run: Run) -> dict[str, Finding]:
    batches = run.measured_batches("forward")
    first, last = batches[0], batches[-1]
    ends = {batch: run.time(batch, "forward") for batch in (first, last)}
    return {
        "smallest": first,
        "largest": last,
        "time_smallest": ends[first],
        "time_largest": ends[last],
        "per_image_smallest": _scaled(ends[first], 1 / first),
        "per_image_largest": _scaled(ends[last], 1 / last),
        "backward_ratio": _time_ratio(run, (last, "forward_backward"), (last, "forward")),
        "fewest_samples": min(
            len(found)
            for batch in run.batches
            for pass_ in PASSES
            if not isinstance(found := run.raw("time", batch, pass_), Missing)
        ),
    }


def _rates(run: Run) -> dict[str, Finding]:
    batches = run.measured_batches("forward")
    rates = present({batch: run.rate(batch, "forward") for batch in batches})
    best = max(rates, key=lambda batch: rates[batch].value)
    enough = SATURATED * rates[best].value
    return {
        "best_batch": best,
        "best_rate": rates[best],
        "best_share": run.efficiency(best, "forward"),
        "saturated": next(batch for batch in batches if rates[batch].value >= enough),
        "batch_gain": rate_gain(run, batches[0], batches[-1]),
    }


def rate_gain(run: Run, small: int, large: int) -> Estimate | Missing:
    """How much faster an image is done at the large batch size than at the small one."""
    ratio = _time_ratio(run, (small, "forward"), (large, "forward"))
    return ratio if isinstance(ratio, Missing) else _times_factor(ratio, large / small)


def _time_ratio(run: Run, above: tuple[int, Pass], below: tuple[int, Pass]) -> Estimate | Missing:
    numerator, denominator = run.raw("time", *above), run.raw("time", *below)
    if isinstance(numerator, Missing):
        return numerator
    if isinstance(denominator, Missing):
        return denominator
    return ratio_of_medians(numerator, denominator)


def _ceilings(run: Run) -> dict[str, Finding]:
    product, copy = run.ceiling("matrix_product"), run.ceiling("copy")
    missing = next((c for c in (product, copy) if isinstance(c, Missing)), None)
    return {
        "ceiling": product,
        "ceiling_before": run.ceiling_at("matrix_product", "before"),
        "ceiling_after": run.ceiling_at("matrix_product", "after"),
        "copy": copy,
        "ridge": missing or rate_over(known(product), known(copy)),
        "time_bound": product if isinstance(product, Missing) else operations(1) / product.value,
    }


def _lines(run: Run) -> dict[str, Finding]:
    batches = run.measured_batches("forward")
    times = [known(run.time(batch, "forward")).value for batch in batches]
    time, held, peak = run.time_fit("forward"), run.held_fit(), run.peak_fit()
    few = Missing(f"fewer than three batch sizes were measured on {run.label}")
    return {
        "time_slope": time if isinstance(time, Missing) else time.slope,
        "time_intercept": time if isinstance(time, Missing) else time.intercept,
        "exponent": few if isinstance(time, Missing) else growth_exponent(batches, times),
        "held_slope": held if isinstance(held, Missing) else _whole(held.slope),
        "held_intercept": held if isinstance(held, Missing) else _whole(held.intercept),
        "peak_slope": peak if isinstance(peak, Missing) else _whole(peak.slope),
    }


def _memory(run: Run) -> dict[str, Finding]:
    largest = run.batches[-1]
    peak = run.peak(largest)
    return {
        "peak_over_output": _scaled(peak, 1 / footprint(largest).output),
    }


def _scaled(found: Number | Estimate | Missing, factor: float) -> Finding:
    if isinstance(found, Missing):
        return found
    return _times_factor(found, factor) if isinstance(found, Estimate) else found * factor


def _times_factor(estimate: Estimate, factor: float) -> Estimate:
    return replace(
        estimate,
        value=estimate.value * factor,
        low=estimate.low * factor,
        high=estimate.high * factor,
    )
