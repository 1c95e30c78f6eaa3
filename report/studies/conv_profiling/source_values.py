"""The numbers of conv_profiling's prose that come from what the source prints."""

from __future__ import annotations

from collections.abc import Iterator

from report.evidence.audit import count_by_verdict
from report.evidence.residuals import residual
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.values import Value, exact
from report.quantity.expression import Quantity
from report.studies.conv_profiling.reconciled import reported_estimate, reported_self_size
from report.studies.conv_profiling.source import (
    CONVOLUTION,
    WORKSPACE,
    audit,
    legible,
    operator_bytes,
    value,
)
from report.studies.conv_profiling.subject import BASE
from report.studies.conv_profiling.values import declared, known
from report.theory.memory import layer_memory
from report.theory.shapes import elements, weight_count


def source_values(inputs: Inputs) -> tuple[Value, ...]:
    """What the source prints, and what follows from it."""
    return (*_reported_memory(inputs), *_reported_kernels(inputs), *_reported_audit(inputs))


def _reported_memory(inputs: Inputs) -> Iterator[Value]:
    reported, file = inputs.reported, inputs.reported_file
    batch = value(reported, "profiled_batch")
    image = layer_memory(BASE.layer(1))
    told, freed = reported_estimate(inputs), reported_self_size(inputs)
    once = layer_memory(BASE.layer(batch)).parameters_and_output
    place = "Memory Calculation"

    def row(operator: str, column: str) -> Quantity:
        of = f" of {operator}" * (operator != CONVOLUTION)
        formula = f"{column.replace('_', ' ')}{of} · 1,024"
        return known(formula, operator_bytes(reported, operator, column), "B", file)

    kept, workspace = row(CONVOLUTION, "size_increase"), row(WORKSPACE, "self_allocation_size")
    found = {
        "source_batch": known(place, batch, "1", file),
        "source_allocated": row(CONVOLUTION, "allocation_size"),
        "source_workspace": workspace,
        "source_self_size": row(CONVOLUTION, "self_size_increase"),
        "source_kept": kept,
        "table_batch": kept / known("output of an image", image.output, "B"),
        "estimate_once": known("4 · (N + B · A)", once, "B", file),
        "extra_parameters": known(
            "(batch − 1) · parameters", (batch - 1) * image.parameters, "B", file
        ),
        "workspace_share": workspace / kept,
        "residual_estimate": residual([told], "B", file),
        "residual_self": residual([freed], "B", file),
    }
    yield from declared(found)
    # These are printed in a unit with a prefix.
    for id_, printed in (
        ("source_estimate", "estimated_memory"),
        ("source_measured", "measured_memory"),
    ):
        number = reported.value(printed)
        yield exact(id_, number.name, number.number, "MB", place, (file,))


def _reported_kernels(inputs: Inputs) -> Iterator[Value]:
    file = inputs.reported_file
    layer = BASE.layer(1)
    _, average, _, bias = legible(inputs.reported)
    unreadable = Missing("the number is not legible")
    batch = value(inputs.reported, "profiled_batch")
    bias_number = known("source", unreadable if bias is None else int(bias), "1", file)
    images = bias_number / known("output elements", elements(layer.output_shape))
    partitions = unreadable if average is None else round(weight_count(layer) / average)
    yield from declared(
        {
            "printed_batch": known("source", value(inputs.reported, "printed_batch"), "1", file),
            "kernels": known("source", value(inputs.reported, "profiled_kernels"), "1", file),
            "batch_work": known("2 · multiply-adds · batch", BASE.operations(batch), "FLOP", file),
            "weight_average": known(
                "source", unreadable if average is None else average, "1", file
            ),
            "partitions": known(
                "weights / printed average, to the nearest whole number", partitions, "1", file
            ),
            "bias_number": bias_number,
            "bias_images": images,
            "bias_per_output": images / batch,
        }
    )


def _reported_audit(inputs: Inputs) -> Iterator[Value]:
    checks, file = audit(inputs.reported), inputs.reported_file
    counts = count_by_verdict(checks)
    yield from declared(
        {
            "audited": known("count", len(checks), "1", file),
            "agreeing": known("count", counts["agrees"] + counts["rounds"], "1", file),
            "differing": known("count", counts["differs"], "1", file),
        }
    )
