"""The numbers of conv_profiling's prose: of theory, of the source, of counts and of a GPU.

Those of the run that the prose speaks of are in ``run_values``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from report.evidence.audit import count_by_verdict
from report.evidence.primitives import Logged
from report.evidence.remembered import known
from report.evidence.residuals import residual
from report.instruments.onednn import AVX2, NATIVE
from report.missing import Missing
from report.paper.declared import values_of
from report.paper.findings import Inputs
from report.paper.images import DataSet
from report.paper.policies import compared
from report.paper.values import Value, declare, exact
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, named, recorded
from report.quantity.expression import exact as exact_quantity
from report.quantity.operations import at_least, at_most, counted_in
from report.records.passes import Pass
from report.statistics.estimates import CONFIDENCE
from report.studies.conv_profiling import network, rates, theory
from report.studies.conv_profiling.measured import Run, image_gain
from report.studies.conv_profiling.policy_values import OF_POLICIES
from report.studies.conv_profiling.profiled import Traced
from report.studies.conv_profiling.reconciled import reported_estimate, reported_self_size
from report.studies.conv_profiling.run_values import (
    NO_RECORD,
    OF_TRACE,
    RUN_VALUES,
    SHARES,
    TRAINED,
    at,
    padded_work,
)
from report.studies.conv_profiling.source import (
    CONVOLUTION,
    WORKSPACE,
    audit,
    legible,
    operator_bytes,
)
from report.studies.conv_profiling.subject import BASE, dimensions_of
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
    runs: Sequence[Run],
    chosen: tuple[Run | None, Run | None, Run | None],
    traced: tuple[Traced | None, Traced | None],
    images: DataSet | None,
    shapes: Mapping[str, Reconciliation],
    logs: Sequence[Logged],
) -> Iterator[Value]:
    """Every value; those of a run are missing where there is none."""
    (primary, learner, gpu), (layer, _) = chosen, traced
    yield exact("confidence", "Confidence", CONFIDENCE, "1", "chosen", (), "percent")
    quantities = {
        **theory.VALUES,
        **_memory(inputs),
        **_kernels(inputs),
        **_audit(inputs),
        **_logs(inputs),
    }
    yield from (declare(id_, each) for id_, each in quantities.items())
    yield from _printed(inputs)
    yield from values_of(learner, network.VALUES, NO_RECORD, SHARES)
    yield from values_of(primary, RUN_VALUES, NO_RECORD, SHARES)
    if primary is not None and compared(primary):
        yield from values_of(primary, OF_POLICIES, NO_RECORD, SHARES)
    if layer is not None:
        yield from values_of(layer, OF_TRACE, NO_RECORD)
    yield from values_of(learner, TRAINED, NO_RECORD, SHARES)
    yield from values_of(images, _OF_IMAGES, NO_RECORD)
    if learner is not None:
        for id_, example in (("test_correct", True), ("other_correct", False)):
            share = point(at("test_accuracy", -1, example=example)(learner))
            right = share if isinstance(share, Missing) else _correct(share, images)
            yield declare(id_, recorded("accuracy · test images", "1", right, learner.file))
    if gpu is not None:
        yield from (declare(id_, each) for id_, each in _of_gpu(gpu, shapes).items())
    yield from (declare(id_, each) for id_, each in _of_others(runs, primary).items())
    yield from (declare(id_, each) for id_, each in rates.values(runs).items())
    if primary is not None and compared(primary):
        yield from (declare(id_, each) for id_, each in rates.of_policies(primary).items())
    yield from _most_padded(logs, learner)


def _of_others(runs: Sequence[Run], primary: Run | None) -> dict[str, Quantity]:
    """Time of an image in the smallest batch over that in the largest, on CPUs that kept memory."""
    others = enumerate(comparing(runs, primary), start=1)
    return {f"other_gain_{number}": image_gain(run) for number, run in others}


def comparing(runs: Sequence[Run], primary: Run | None) -> list[Run]:
    """The CPUs beside the one of the prose that timed several batches under each memory policy."""
    others = (run for run in runs if compared(run) and run is not primary)
    return [run for run in others if not image_gain(run).missing]


def _most_padded(logs: Sequence[Logged], learner: Run | None) -> Iterator[Value]:
    """Of the shape that the CPU's own code pads most, by its log."""
    padded = {
        str(each.case.factors["channels"]): each
        for each in logs
        if each.case.factors["pass"] == "forward" and not each.executed(NATIVE).missing
    }
    if padded:
        worst = max(padded.values(), key=lambda each: known(point(each.executed(NATIVE))))
        yield from values_of(worst, _OF_LOG, NO_RECORD)
        if learner is not None:
            layer = exact_quantity("work", "MAC", dimensions_of(worst.case).multiply_adds(1))
            padding = (worst.executed(NATIVE) - 1) * layer
            yield declare("uneven_work", padded_work(learner, padding))
        for id_, channels in zip(
            ("in", "out"), str(worst.case.factors["channels"]).split("-"), strict=True
        ):
            yield declare(f"uneven_{id_}", recorded("channels", "1", int(channels), worst.run.file))


def _correct(share: float, images: DataSet | None) -> int | Missing:
    return round(share * images.test) if images else Missing("the images are not described")


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


def _logs(inputs: Inputs) -> dict[str, Quantity]:
    """The losses that the source logged of a longer run with other channels."""
    losses = [float(x) for x in inputs.reported.table("channels_log").column("loss") if x]  # type: ignore[arg-type]
    file = inputs.reported_file
    return {
        "log_steps": recorded("logged steps", "1", len(losses), file),
        "log_least": recorded("smallest loss of a step", "1", min(losses), file),
        "log_most": recorded("largest loss of a step", "1", max(losses), file),
        "new_inputs": recorded("source", "1", inputs.reported.count("new_first_channels"), file),
        "new_outputs": recorded("source", "1", inputs.reported.count("new_output_channels"), file),
    }


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


#: Of the images that were trained on.
_OF_IMAGES: Final[dict[str, Callable[[DataSet], Quantity]]] = {
    "test_images": lambda images: recorded("images.json", "1", images.test),
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


def _inversion(run: Run, batch: int) -> dict[str, Quantity]:
    """A call that takes longer than one of the next larger batch size."""
    after = run.timed[run.timed.index(batch) + 1]
    return {
        "gpu_slow_batch": recorded("batch size", "1", batch, run.file),
        "gpu_slow_time": run.time(batch),
        "gpu_slow_least": shortest(run, batch),
        "gpu_next_batch": recorded("next batch size", "1", after, run.file),
        "gpu_next_time": run.time(after),
        "gpu_next_least": shortest(run, after),
    }


def shortest(run: Run, batch: int) -> Quantity:
    """The shortest sample of a forward call (s)."""
    found = run.samples("time", BASE.factors(batch, "forward"))
    least = found if isinstance(found, Missing) else float(min(found))
    return recorded("shortest sample", "s", least, run.file)


def _small_batches(run: Run) -> dict[str, Quantity]:
    """How the call of the second smallest batch compares with that of the largest."""
    second = run.timed[:2][-1]
    return {
        "gpu_second_batch": recorded("second batch size", "1", second, run.file),
        "gpu_gain_second": run.image_time(second) / run.image_time(run.timed[-1]),
    }


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
    slow = rates.slower_than_twice(run)
    worst = max(slow, key=lambda b: known(point(run.time(b))), default=None)
    return {
        **({} if worst is None else _inversion(run, worst)),
        **(_small_batches(run) if run.timed else {}),
        "misread_direct": BASE.outputs * at_least(*forward),
        "gpu_slower": recorded("batch sizes slower than the next", "1", len(slow), run.file),
        "gpu_gain": image_gain(run),
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
