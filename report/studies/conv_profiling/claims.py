"""What the source claims, judged again by its own numbers and by the runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from report.missing import Missing
from report.paper.findings import Claim, Inputs
from report.paper.values import Value
from report.studies.conv_profiling.measured import Run, image_gain
from report.studies.conv_profiling.reconciled import (
    all_explained,
    changed,
    changed_peaks,
    executed,
    reported_estimate,
    reported_self_size,
)
from report.studies.conv_profiling.source import CONVOLUTION, operator_bytes, value
from report.studies.conv_profiling.subject import BASE
from report.studies.conv_profiling.tables import measured_work
from report.text.format import quantity_text
from report.theory.memory import layer_memory
from report.theory.reconciliation import Reconciliation

#: How many times theory is «far more».
FAR_MORE: Final = 1.5


def all_claims(inputs: Inputs, runs: Sequence[Run], values: dict[str, Value]) -> tuple[Claim, ...]:
    """Every claim of the source that numbers can decide."""
    return (
        _batch_in_product(inputs, values),
        _table_of_one_image(inputs, values),
        _parameters_per_image(inputs, values),
        _temporary_storage(inputs),
        _recovery(inputs, values),
        *(_device_work(run) if run.on_gpu else _saved_work(run) for run in runs),
        *(_small_batches(run) for run in runs),
        *(_architecture(run) for run in runs),
        *([] if runs else [_unmeasured()]),
    )


def _batch_in_product(inputs: Inputs, values: dict[str, Value]) -> Claim:
    printed, outputs = value(inputs.reported, "printed_batch"), BASE.outputs
    same = value(inputs.reported, "flops") == BASE.operations(1) and printed == outputs
    return Claim(
        "batch-in-product",
        "The product for the number of operations contains the batch size (source).",
        "refuted" if same else "undecided",
        f"its result is that of one image, {values['flops'].plain}: the factor {printed} is the "
        f"{outputs} output channels, and a batch of {printed} would need "
        f"{values['batch_work'].plain}"
        if same
        else "its result is not that of one image",
        ("flops", "batch_work"),
    )


def _table_of_one_image(inputs: Inputs, values: dict[str, Value]) -> Claim:
    batch = values["table_batch"]
    named = value(inputs.reported, "profiled_batch")
    return Claim(
        "table-of-one-image",
        "The operator table is that of a batch of one image (source).",
        "refuted" if batch.number == named else "undecided",
        f"its size increase is {values['source_kept'].plain}, the output of {batch.plain} images",
        ("source_kept", "table_batch"),
    )


def _parameters_per_image(inputs: Inputs, values: dict[str, Value]) -> Claim:
    told = reported_estimate(inputs)
    return Claim(
        "parameters-per-image",
        "Memory for a batch is the memory for one image, parameters included, times the batch "
        "size (source).",
        "refuted" if told.explained else "undecided",
        f"the parameters are there once, so that {values['extra_parameters'].plain} of the "
        f"estimate are counted too often; counted once it is {values['estimate_once'].plain}",
        ("extra_parameters", "estimate_once"),
    )


def _temporary_storage(inputs: Inputs) -> Claim:
    told = reported_self_size(inputs)
    return Claim(
        "temporary-storage",
        "Measured memory is larger because of temporary storage inside the call (source).",
        "supported" if told.explained else "undecided",
        "what is given beyond the output is one workspace, and the convolution takes all of it "
        f"back: {_left(told)}",
        ("source_workspace", "source_self_size", "residual_self"),
    )


def _recovery(inputs: Inputs, values: dict[str, Value]) -> Claim:
    kept = operator_bytes(inputs.reported, CONVOLUTION, "size_increase")
    batch = value(inputs.reported, "profiled_batch")
    exactly = kept == layer_memory(BASE.layer(batch)).output
    return Claim(
        "recovery",
        "Values are saved so that they can be recovered after a failure of a node (source).",
        "refuted" if exactly else "undecided",
        f"the call keeps {values['source_kept'].plain}, which is its output and nothing besides"
        if exactly
        else "the call keeps something besides its output",
        ("source_kept",),
    )


def _saved_work(run: Run) -> Claim:
    told = [*executed(run).values(), *executed(run, "forward_backward").values()]
    sentence = f"Estimates exceed counts because work is cached or optimised away ({run.label})."
    if not told:
        return Claim(f"saved-work-{run.key}", sentence, "not measured", _not_counted(run))
    less = sum(isinstance(r.residual, int) and r.residual < 0 for r in told)
    return Claim(
        f"saved-work-{run.key}",
        sentence,
        "refuted" if all_explained(told) else "undecided",
        f"at {len(told)} of {len(told)} batch sizes and passes every multiply-add of theory is "
        "executed"
        if all_explained(told)
        else f"at {less} of {len(told)} batch sizes and passes less is counted than terms say",
        ("residual_executed",),
    )


def _device_work(run: Run) -> Claim:
    sentence = f"Estimates exceed counts because work is cached or optimised away ({run.label})."
    found = _ratios(run)
    if not found:
        return Claim(f"saved-work-{run.key}", sentence, "not measured", _not_counted(run))
    more = sum(ratio >= 1 for ratio in found.values())
    return Claim(
        f"saved-work-{run.key}",
        sentence,
        "refuted" if more == len(found) else "undecided",
        f"at {more} of {len(found)} batch sizes both kinds of cores together execute at least the "
        "operations of theory",
    )


def _ratios(run: Run) -> dict[int, float]:
    """Measured over estimated work by batch size."""
    found = {batch: measured_work(run, batch) for batch in run.batches()}
    return {b: w / BASE.operations(b) for b, w in found.items() if not isinstance(w, Missing)}


def _small_batches(run: Run) -> Claim:
    """Work by the smallest counted batch, time as what changes instead."""
    sentence = f"Small batches execute far more operations than theory says ({run.label})."
    found = _ratios(run)
    if not found:
        return Claim(f"small-batches-{run.key}", sentence, "not measured", _not_counted(run))
    smallest, ratio = min(found), found[min(found)]
    return Claim(
        f"small-batches-{run.key}",
        sentence,
        "supported" if ratio > FAR_MORE else "refuted",
        f"a batch of {smallest} executes {_times(ratio)} the operations of theory{_slower(run)}",
        ("residual_executed", "image_gain"),
    )


def _times(ratio: float) -> str:
    return "exactly" if ratio == 1 else f"{quantity_text(ratio, '1')} times"


def _slower(run: Run) -> str:
    """What a small batch costs in time, where that is told by the intervals."""
    gain = image_gain(run)
    if isinstance(gain, Missing) or gain.low <= 1:
        return ""
    times = quantity_text(gain, "1")
    return f"; an image in the smallest timed batch takes {times} times as long as in the largest"


def _architecture(run: Run) -> Claim:
    sentence = (
        "Estimates differ from measurements by an architecture that no estimate can take into "
        f"account ({run.label})."
    )
    told = [*changed(run).values(), *changed_peaks(run).values()]
    if not told:
        why = f"nothing that was counted on {run.label} is led back to terms here"
        return Claim(f"architecture-{run.key}", sentence, "not measured", why)
    explained = sum(r.explained for r in told)
    return Claim(
        f"architecture-{run.key}",
        sentence,
        "refuted" if explained == len(told) else "undecided",
        f"{explained} of {len(told)} counts of work and peaks of memory, over all dimensions, "
        "follow to the unit from shapes, the width of a vector and the code that was chosen",
        ("residual_changed", "residual_changed_peak"),
    )


def _not_counted(run: Run) -> str:
    return f"nothing was counted on {run.label}"


def _left(told: Reconciliation) -> str:
    return "residual " + (
        "unknown"
        if isinstance(told.residual, Missing)
        else quantity_text(told.residual, "B", "exact")
    )


def _unmeasured() -> Claim:
    return Claim(
        "own-measurement",
        "What the source says of executed work and of memory holds on this study's machines.",
        "not measured",
        "no run of this experiment is in the data directory",
    )
