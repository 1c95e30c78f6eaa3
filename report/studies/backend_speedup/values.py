"""The numbers of backend_speedup's prose that follow from theory and from the source."""

from __future__ import annotations

from typing import Final

from report.evidence.audit import count_by_verdict
from report.paper.findings import Inputs
from report.paper.values import Finding, Value, exact
from report.records.layers import ELEMENT_BYTES
from report.statistics.estimates import CONFIDENCE
from report.studies.backend_speedup.source import (
    amdahl,
    amdahl_limit,
    audit,
    count,
    data_set_number,
    gradient_beyond_backward,
    number,
)
from report.studies.backend_speedup.subject import (
    CHANNELS,
    CLASSES,
    CONVNET_RATE,
    EXTENT,
    FEATURES,
    HIDDEN,
    KERNEL,
    PIXELS,
    Setting,
    components,
    forward_macs,
    iteration,
    parameter_count,
    total,
)
from report.studies.backend_speedup.theory_tables import source_setting

#: Images of Kaggle's digit-recognizer that come without a label, by its description
#: (``kaggledigit`` in the bibliography); the others of MNIST are its training file.
KAGGLE_UNLABELLED: Final = 28_000

_MILLI: Final = 1e-3
_MEGA: Final = 1e6


def theory_values() -> tuple[Value, ...]:
    """What follows from the shapes of both networks."""
    one = Setting("scaling", "perceptron", "float32", 1, "")
    convolution = Setting("scaling", "convnet", "float32", 1, "")
    forward, training = forward_macs("perceptron"), total(one).macs
    parameters = parameter_count("perceptron")
    return (
        exact("extent", "Extent of an image", EXTENT, "1", "geometry"),
        exact("pixels", "Pixels of an image", PIXELS, "1", "extent²"),
        exact("classes", "Classes", CLASSES, "1", "geometry"),
        exact("hidden", "Neurons of the hidden layer", HIDDEN, "1", "geometry"),
        exact("parameters", "Parameters of the perceptron", parameters, "1",
              "(d + 1) · h + (h + 1) · k"),
        exact("parameter_bytes", "Their bytes in float32", components(one).parameters, "B",
              "4 · parameters"),
        exact("forward_macs", "Multiply-adds of a forward pass of an image", forward, "MAC",
              "d · h + h · k"),
        exact("training_macs", "Multiply-adds of a training iteration for an image", training,
              "MAC", "2 · d · h + 3 · h · k"),
        Value("training_ratio", "Training over forward pass", training / forward, "1",
              "training / forward"),
        exact("convnet_parameters", "Parameters of the convolution network",
              parameter_count("convnet"), "1", "(q + 1) · c + (f + 1) · k"),
        exact("convnet_macs", "Its multiply-adds of a training iteration for an image",
              total(convolution).macs, "MAC", "2 · c · q · n + 3 · f · k"),
        Value("convnet_work_ratio", "Work of the convolution network over the perceptron's",
              total(convolution).macs / training, "1", "training / training"),
        exact("convnet_rate", "Learning rate of the convolution network", CONVNET_RATE, "1",
              "chosen"),
        exact("channels", "Kernels of the convolution", CHANNELS, "1", "geometry"),
        exact("kernel", "Extent of a kernel", KERNEL, "1", "geometry"),
        exact("features", "Inputs of its linear layer", FEATURES, "1", "geometry"),
        Value("confidence", "Confidence of the intervals", CONFIDENCE, "1", "chosen", (),
              "percent"),
    )  # fmt: skip


def source_values(inputs: Inputs) -> tuple[Value, ...]:
    """What the source prints, and what follows from it."""
    return (*_printed(inputs), *_rates(inputs), *_decomposed(inputs), *_memory(inputs))


def _printed(inputs: Inputs) -> tuple[Value, ...]:
    reported, origin = inputs.reported, (inputs.reported_file,)
    counts = count_by_verdict(audit(reported))
    images = data_set_number(reported, "training")
    mnist = images + data_set_number(reported, "test")
    of = reported.value

    def value(id_: str, name: str, found: Finding, unit: str, formula: str) -> Value:
        return exact(id_, name, found, unit, formula, origin)

    return (
        value("source_iterations", "Iterations of the source", count(reported, "iterations"), "1",
              "Section 6.4"),
        value("source_rate", "Learning rate of the source", of("learning_rate").number, "1",
              "Section 6.4"),
        value("source_images", "Training images of the source", count(reported, "training"), "1",
              "Section 7"),
        value("source_held_out", "Images that the source holds out",
              count(reported, "validation"), "1", "Section 7"),
        value("printed_images", "Training images of MNIST", images, "1", "Table 2"),
        value("kaggle_images", "Labelled images of the file that the source names",
              mnist - KAGGLE_UNLABELLED, "1", "images of MNIST − images without label (Kaggle)"),
        value("kaggle_columns", "Columns of that file", PIXELS + 1, "1", "pixels + label"),
        value("printed_size", "Size of MNIST in the source", data_set_number(reported, "size"),
              "MB", "Table 2"),
        Value("mnist_bytes", "Pixels of MNIST, a byte each", mnist * PIXELS, "B",
              "(training + test) · pixels", origin),
        value("source_total_cpu", "Training time of the source on its CPU",
              of("total_time_cpu").number, "s", "Table 3"),
        value("source_total_gpu", "The same on its GPU", of("total_time_gpu").number, "s",
              "Table 3"),
        value("source_speedup", "Total speed-up of the source", of("total_speedup").number, "1",
              "Table 3"),
        *(value(f"source_{row}", f"Speed-up of the source: {what}",
                number(reported, table, row, "speedup"), "1", f"Table {table}")
          for table, row, what in (("3", "forward", "forward pass"),
                                   ("3", "backward", "backward pass"),
                                   ("4", "matrix_product", "matrix products"),
                                   ("4", "relu", "ReLU"), ("4", "softmax", "softmax"),
                                   ("4", "gradient", "gradient computation"))),
        value("audited", "Derived numbers audited", sum(counts.values()), "1", "count"),
        value("agreeing", "Derived numbers that agree", counts["agrees"] + counts["rounds"], "1",
              "count"),
        value("differing", "Derived numbers that differ", counts["differs"], "1", "count"),
    )  # fmt: skip


def _rates(inputs: Inputs) -> tuple[Value, ...]:
    """How fast the source's machines computed and moved, from its times and from theory."""
    origin, step = (inputs.reported_file,), total(source_setting(inputs))
    moved = ELEMENT_BYTES["float32"] * step.elements
    times = {side: float(number(inputs.reported, "3", "iteration", side)) * _MILLI
             for side in ("cpu", "gpu")}  # fmt: skip
    first = iteration(source_setting(inputs))[0]
    found: list[Value] = [
        Value("product_intensity", "Intensity of the first product at the source's size",
              first.flops / (ELEMENT_BYTES["float32"] * first.elements), "FLOP/B",
              "FLOP / bytes of both factors and the result", origin),
        Value("source_work", "Work of an iteration of the source", step.flops, "FLOP",
              "sum over equations (1) to (10)", origin),
        Value("source_traffic", "Traffic of an iteration of the source", moved, "B",
              "4 · elements of all operands and results", origin),
    ]  # fmt: skip
    for side, seconds in times.items():
        name = side.upper()
        found += [
            Value(f"source_flops_{side}", f"Work of the source a second, {name}",
                  step.flops / seconds, "FLOP/s", "work / time of an iteration", origin),
            Value(f"source_bandwidth_{side}", f"Traffic of the source a second, {name}",
                  moved / seconds, "B/s", "traffic / time of an iteration", origin),
        ]  # fmt: skip
    return tuple(found)


def _decomposed(inputs: Inputs) -> tuple[Value, ...]:
    reported, origin = inputs.reported, (inputs.reported_file,)

    def share(row: str, side: str) -> float:
        part, whole = number(reported, "4", row, side), number(reported, "3", "iteration", side)
        return float(part) / float(whole)

    return (
        Value("source_amdahl", "Total speed-up from the source's operations", amdahl(reported), "1",
              "1 / Σ (share / speed-up)", origin),
        Value("source_limit", "Total speed-up of the source if products took no time",
              amdahl_limit(reported, "matrix_product"), "1", "1 / (1 − share of products)",
              origin),
        Value("product_share_cpu", "Share of products in the source's CPU time",
              share("matrix_product", "cpu"), "1", "Table 4 / Table 3", origin, "percent"),
        Value("product_share_gpu", "Share of products in the source's GPU time",
              share("matrix_product", "gpu"), "1", "Table 4 / Table 3", origin, "percent"),
        Value("gradient_share_gpu", "Share of gradients in the source's GPU time",
              share("gradient", "gpu"), "1", "Table 4 / Table 3", origin, "percent"),
        exact("gradient_beyond", "Gradient computation beyond the backward pass, GPU",
              round(gradient_beyond_backward(reported, "gpu"), 1), "ms", "Table 4 − Table 3",
              origin),
    )  # fmt: skip


def _memory(inputs: Inputs) -> tuple[Value, ...]:
    reported, origin = inputs.reported, (inputs.reported_file,)
    setting = source_setting(inputs)
    images = data_set_number(reported, "training")
    parameters = float(number(reported, "5", "parameters", "cpu"))
    overhead, whole = (float(number(reported, "5", r, "gpu")) for r in ("framework", "total"))
    return (
        exact("printed_parameters", "Memory of the parameters, printed", parameters, "MB",
              "Table 5", origin),
        Value("parameters_ratio", "Printed memory of the parameters over theory",
              parameters * _MEGA / components(setting).parameters, "1", "printed / theory",
              origin),
        exact("printed_input", "Memory of the input, printed",
              number(reported, "5", "input", "cpu"), "MB", "Table 5", origin),
        Value("input_floats", "Input of the source in float32", 4 * PIXELS * images, "B",
              "4 · pixels · images", origin),
        Value("input_bytes", "Input of the source, a byte a pixel", PIXELS * images, "B",
              "pixels · images", origin),
        Value("input_labelled", "The same with the column of labels", (PIXELS + 1) * images, "B",
              "(pixels + 1) · images", origin),
        Value("overhead_share", "Share of framework overhead in the source's GPU memory",
              overhead / whole, "1", "Table 5", origin, "percent"),
    )  # fmt: skip
