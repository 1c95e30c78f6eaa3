"""The numbers of conv_profiling's prose that come from what the source prints."""

from __future__ import annotations

from report.evidence.audit import count_by_verdict
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.residuals import LEFT
from report.paper.values import Finding, Value, exact
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
from report.studies.conv_profiling.values import whole
from report.theory.memory import layer_memory
from report.theory.shapes import elements, weight_count


def source_values(inputs: Inputs) -> tuple[Value, ...]:
    """What the source prints, and what follows from it."""
    return (*_reported_memory(inputs), *_reported_kernels(inputs), *_reported_audit(inputs))


def _reported_memory(inputs: Inputs) -> tuple[Value, ...]:
    reported, origin = inputs.reported, (inputs.reported_file,)
    batch = value(reported, "profiled_batch")
    image = layer_memory(BASE.layer(1))
    kept = operator_bytes(reported, CONVOLUTION, "size_increase")
    told, freed = reported_estimate(inputs), reported_self_size(inputs)
    once = layer_memory(BASE.layer(batch)).parameters_and_output
    place = "Memory Calculation"

    def of(id_: str, name: str, number: Finding, unit: str, formula: str) -> Value:
        return exact(id_, name, number, unit, formula, origin)

    return (
        of("source_batch", "Batch size of the source's memory", batch, "1", place),
        of(
            "source_estimate",
            "Estimate of the source",
            reported.value("estimated_memory").number,
            "MB",
            place,
        ),
        of(
            "source_measured",
            "Measurement of the source",
            reported.value("measured_memory").number,
            "MB",
            place,
        ),
        of(
            "source_allocated",
            "Bytes given in the source's call",
            operator_bytes(reported, CONVOLUTION, "allocation_size"),
            "B",
            "allocation size · 1,024",
        ),
        of(
            "source_workspace",
            "Workspace of the source's call",
            operator_bytes(reported, WORKSPACE, "self_allocation_size"),
            "B",
            "self allocation size of aten::empty · 1,024",
        ),
        of(
            "source_self_size",
            "Self size increase of the source's convolution",
            operator_bytes(reported, CONVOLUTION, "self_size_increase"),
            "B",
            "self size increase · 1,024",
        ),
        of("source_kept", "Bytes that the source's call keeps", kept, "B", "size increase · 1,024"),
        of(
            "table_batch",
            "Batch size of the source's operator table",
            whole(kept / image.output),
            "1",
            "size increase / bytes of the output of an image",
        ),
        of("estimate_once", "Estimate with parameters counted once", once, "B", "4 · (N + B · A)"),
        of(
            "extra_parameters",
            "Bytes of parameters counted too often",
            (batch - 1) * image.parameters,
            "B",
            "(batch − 1) · parameters",
        ),
        of(
            "workspace_share",
            "Workspace over output in the source",
            operator_bytes(reported, WORKSPACE, "self_allocation_size") / kept,
            "1",
            "workspace / output",
        ),
        of("residual_estimate", "Residual of the source's memory", told.residual, "B", LEFT),
        of("residual_self", "Residual of its self size", freed.residual, "B", LEFT),
    )


def _reported_kernels(inputs: Inputs) -> tuple[Value, ...]:
    origin = (inputs.reported_file,)
    layer = BASE.layer(1)
    _, average, _, bias = legible(inputs.reported)
    unreadable = Missing("the number is not legible")
    batch = value(inputs.reported, "profiled_batch")
    printed = value(inputs.reported, "printed_batch")
    outputs = elements(layer.output_shape)
    return (
        exact(
            "printed_batch", "Last factor of the printed product", printed, "1", "source", origin
        ),
        exact(
            "kernels",
            "Kernels of one call in the source",
            value(inputs.reported, "profiled_kernels"),
            "1",
            "source",
            origin,
        ),
        exact(
            "batch_work",
            "Work of the source's batch",
            BASE.operations(batch),
            "FLOP",
            "2 · multiply-adds · batch",
            origin,
        ),
        exact(
            "weight_average",
            "Average printed for the second layout kernel",
            unreadable if average is None else average,
            "1",
            "source",
            origin,
        ),
        exact(
            "partitions",
            "Weights over the average printed for the second layout kernel",
            unreadable if average is None else round(weight_count(layer) / average),
            "1",
            "weights / printed average, to the nearest whole number",
            origin,
        ),
        exact(
            "bias_number",
            "Number printed for the bias kernel",
            unreadable if bias is None else int(bias),
            "1",
            "source",
            origin,
        ),
        exact(
            "bias_images",
            "Number printed for the bias kernel over the outputs of an image",
            unreadable if bias is None else whole(bias / outputs),
            "1",
            "printed number / output elements",
            origin,
        ),
        exact(
            "bias_per_output",
            "The same for each output of the source's batch",
            unreadable if bias is None else bias / outputs / batch,
            "1",
            "printed number / (output elements · batch)",
            origin,
        ),
    )


def _reported_audit(inputs: Inputs) -> tuple[Value, ...]:
    origin = (inputs.reported_file,)
    checks = audit(inputs.reported)
    counts = count_by_verdict(checks)
    return (
        exact("audited", "Derived numbers audited", len(checks), "1", "count", origin),
        exact(
            "agreeing",
            "Derived numbers that agree",
            counts["agrees"] + counts["rounds"],
            "1",
            "count",
            origin,
        ),
        exact("differing", "Derived numbers that differ", counts["differs"], "1", "count", origin),
    )
