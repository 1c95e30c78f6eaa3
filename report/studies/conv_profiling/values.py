"""The numbers of conv_profiling's prose: of theory, of the source, of counts and of a GPU.

Those of the run that the prose speaks of are in ``run_values``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from report.evidence.audit import count_by_verdict
from report.evidence.executed import residual
from report.evidence.primitives import Logged
from report.evidence.remembered import known
from report.instruments.onednn import AVX2, NATIVE
from report.missing import Missing
from report.paper.declared import values_of
from report.paper.findings import Inputs
from report.paper.values import Value, declare, exact
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, named, recorded
from report.quantity.expression import exact as exact_quantity
from report.quantity.operations import at_least, at_most, counted_in
from report.records.passes import Pass
from report.statistics.estimates import CONFIDENCE
from report.studies.conv_profiling import theory
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.profiled import Traced
from report.studies.conv_profiling.reconciled import reported_estimate, reported_self_size
from report.studies.conv_profiling.run_values import (
    NO_RECORD,
    OF_TRACE,
    RUN_VALUES,
    SHARES,
)
from report.studies.conv_profiling.source import (
    CONVOLUTION,
    WORKSPACE,
    audit,
    legible,
    operator_bytes,
)
from report.studies.conv_profiling.subject import BASE
from report.text.format import Number
from report.theory.reconciliation import Reconciliation
from report.theory.shapes import weight_count

#: Sub-partitions of a multiprocessor, by which Nsight Compute's ``smsp`` counters average.
_IN_AN_SM: Final = 4


def whole(number: float) -> Number:
    """A number as the whole number that it is, if it is one."""
    return int(number) if number == int(number) else number


def all_values(
    inputs: Inputs,
    chosen: tuple[Run | None, Run | None],
    traced: Traced | None,
    shapes: Mapping[str, Reconciliation],
    logs: Sequence[Logged],
) -> Iterator[Value]:
    """Every value; those of a run are missing where there is none."""
    primary, gpu = chosen
    yield exact("confidence", "Confidence", CONFIDENCE, "1", "chosen", (), "percent")
    quantities = {**theory.VALUES, **_memory(inputs), **_kernels(inputs), **_audit(inputs)}
    yield from (declare(id_, each) for id_, each in quantities.items())
    yield from _printed(inputs)
    yield from values_of(primary, RUN_VALUES, NO_RECORD, SHARES)
    if traced is not None:
        yield from values_of(traced, OF_TRACE, NO_RECORD)
    if gpu is not None:
        yield from (declare(id_, each) for id_, each in _of_gpu(gpu, shapes).items())
    yield from _most_padded(logs)


def _most_padded(logs: Sequence[Logged]) -> Iterator[Value]:
    """Of the shape that the CPU's own code pads most, by its log."""
    padded = {
        str(each.case.factors["channels"]): each
        for each in logs
        if each.case.factors["pass"] == "forward" and not each.executed(NATIVE).missing
    }
    if padded:
        worst = max(padded.values(), key=lambda each: known(point(each.executed(NATIVE))))
        yield from values_of(worst, _OF_LOG, NO_RECORD)
        for id_, channels in zip(
            ("in", "out"), str(worst.case.factors["channels"]).split("-"), strict=True
        ):
            yield declare(f"uneven_{id_}", recorded("channels", "1", int(channels), worst.run.file))


# -------------------------------------------------------------------------------- the source


def _memory(inputs: Inputs) -> dict[str, Quantity]:
    """What the source's operator table says, and what leads its estimate to it."""
    reported, file = inputs.reported, inputs.reported_file
    batch = reported.count("profiled_batch")

    def row(operator: str, column: str) -> Quantity:
        of = f" of {operator}" * (operator != CONVOLUTION)
        formula = f"{column.replace('_', ' ')}{of} · 1,024"
        return recorded(formula, "B", operator_bytes(reported, operator, column), file)

    kept, workspace = row(CONVOLUTION, "size_increase"), row(WORKSPACE, "self_allocation_size")
    return {
        "source_batch": recorded("Memory Calculation", "1", batch, file),
        "source_allocated": row(CONVOLUTION, "allocation_size"),
        "source_workspace": workspace,
        "source_self_size": row(CONVOLUTION, "self_size_increase"),
        "source_kept": kept,
        "table_batch": kept / theory.OUTPUT_BYTES,
        "estimate_once": theory.once(batch),
        "extra_parameters": recorded("batch − 1", "1", batch - 1) * theory.PARAMETER_BYTES,
        "workspace_share": workspace / kept,
        "residual_estimate": residual([reported_estimate(inputs)], "B", file),
        "residual_self": residual([reported_self_size(inputs)], "B", file),
    }


def _printed(inputs: Inputs) -> Iterator[Value]:
    """Numbers that the source prints in a unit with a prefix."""
    place, file = "Memory Calculation", inputs.reported_file
    for id_, printed in (
        ("source_estimate", "estimated_memory"),
        ("source_measured", "measured_memory"),
    ):
        number = inputs.reported.value(printed)
        yield exact(id_, number.name, number.number, "MB", place, (file,))


def _kernels(inputs: Inputs) -> dict[str, Quantity]:
    """The source's kernels, and what the two legible numbers of theirs say."""
    file = inputs.reported_file
    layout, average, _, bias = legible(inputs.reported)
    unreadable = Missing("the number is not legible")
    batch = inputs.reported.count("profiled_batch")
    bias_number = recorded("source", "1", unreadable if bias is None else int(bias), file)
    images = bias_number / theory.OUTPUTS
    weights = weight_count(BASE.layer(1))
    partitions = unreadable if average is None else round(weights / average)
    return {
        "printed_batch": recorded("source", "1", inputs.reported.count("printed_batch"), file),
        "kernels": recorded("source", "1", inputs.reported.count("profiled_kernels"), file),
        "batch_work": theory.work(batch),
        "weight_average": recorded("source", "1", unreadable if average is None else average, file),
        "partitions": recorded(
            "weights / printed average, to the nearest whole number", "1", partitions, file
        ),
        "partitions_of_sm": exact_quantity("sub-partitions of a multiprocessor", "1", _IN_AN_SM),
        "multiprocessors": recorded("sub-partitions / 4", "1", _divided(partitions), file),
        "misread_tensor": 2 * theory.OUTPUTS / _printed_work(),
        "layout_count": recorded(
            "source", "1", unreadable if layout is None else int(layout), file
        ),
        "bias_number": bias_number,
        "bias_images": images,
        "bias_per_output": images / batch,
        "dropout_first": _number(inputs, "dropout_first"),
        "dropout_second": _number(inputs, "dropout_second"),
    }


def _divided(partitions: int | Missing) -> int | Missing:
    return partitions if isinstance(partitions, Missing) else partitions // _IN_AN_SM


def _printed_work() -> Quantity:
    """The source's product with its last factor taken as a batch of one image (operations)."""
    return 2 * theory.WEIGHTS * theory.OUT_EXTENT * theory.OUT_EXTENT / theory.C_OUT


def _number(inputs: Inputs, id_: str) -> Quantity:
    return recorded("source", "1", inputs.reported.value(id_).number, inputs.reported_file)


def _audit(inputs: Inputs) -> dict[str, Quantity]:
    checks, file = audit(inputs.reported), inputs.reported_file
    counts = count_by_verdict(checks)
    return {
        "audited": recorded("count", "1", len(checks), file),
        "agreeing": recorded("count", "1", counts["agrees"] + counts["rounds"], file),
        "differing": recorded("count", "1", counts["differs"], file),
    }


# ------------------------------------------------------------------------------- counted work


#: What oneDNN's logs say of the shape whose blocks pad most in the CPU's own code.
_OF_LOG: Final[dict[str, Callable[[Logged], Quantity]]] = {
    "uneven_native": lambda logged: logged.executed(NATIVE),
    "uneven_avx2": lambda logged: logged.executed(AVX2),
}


def executed_shares(run: Run, pass_: Pass) -> tuple[Quantity, ...]:
    """Operations that a GPU executed for each of theory's, by the batch sizes counted."""
    shares = (executed(run, batch, pass_) for batch in run.batches())
    return tuple(each for each in shares if not each.missing)


def executed(run: Run, batch: int, pass_: Pass) -> Quantity:
    """The source's sum of float32 counters, and what tensor cores did, over the shape's work."""
    factors = BASE.factors(batch, pass_)
    adds, multiplies, fused = (
        run.repeated(f"ncu_fp32_{kind}", factors)
        for kind in ("additions", "multiplications", "multiply_adds")
    )
    units = counted_in("FLOP", adds + multiplies + 2 * fused)
    work = exact_quantity("work", "FLOP", BASE.operations(batch, pass_))
    tensor = run.repeated("ncu_tensor_core_flops", factors)
    return named("operations executed / theory", (units + tensor) / work)


def _of_gpu(run: Run, shapes: Mapping[str, Reconciliation]) -> dict[str, Quantity]:
    """What a GPU executed for each multiply-add of theory, over batches and shapes."""
    nothing = (absent("multiply-adds executed", "1", f"nothing was counted on {run.label}"),)
    forward = executed_shares(run, "forward") or nothing
    backward = executed_shares(run, "forward_backward") or nothing
    shares = [
        recorded("executed", "MAC", r.measured.amount, run.file)
        / recorded("theory", "MAC", r.start.amount, run.file)
        for r in shapes.values()
        if not isinstance(r.measured, Missing)
    ] or nothing
    explained = sum(r.explained for r in shapes.values())
    tiled = sum(bool(r.terms[0].amount) for r in shapes.values())
    return {
        "misread_direct": BASE.outputs * at_least(*forward),
        "tiled_padded": recorded("cases with a padded tile", "1", tiled, run.file),
        "gpu_forward_least": at_most(*forward),
        "gpu_forward_most": at_least(*forward),
        "gpu_backward_least": at_most(*backward),
        "gpu_backward_most": at_least(*backward),
        "tiled_cases": recorded("cases of the record", "1", len(shapes), run.file),
        "tiled_explained": recorded("count of residuals of zero", "1", explained, run.file),
        "tiled_left": recorded("residuals", "1", len(shapes) - explained, run.file),
        "tiled_least": at_most(*shares),
        "tiled_most": at_least(*shares),
    }
