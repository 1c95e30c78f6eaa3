"""What the source claims, judged again by its own numbers and by the runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from report.evidence.executed import MAKING
from report.evidence.residuals import residual
from report.missing import Missing
from report.paper.claims import found_text
from report.paper.findings import Claim, Inputs
from report.paper.values import Value
from report.quantity.evaluation import number
from report.quantity.expression import Inferred, Leaf, Quantity, absent
from report.quantity.units import ONE
from report.quantity.verdicts import Several, Statement, any_of, exactly, expect
from report.records.passes import PASSES
from report.statistics.estimates import Estimate
from report.studies.conv_profiling.gpu_values import executed_shares
from report.studies.conv_profiling.measured import Run, image_gain
from report.studies.conv_profiling.reconciled import (
    changed,
    changed_peaks,
    executed,
    reported_estimate,
    reported_self_size,
)
from report.studies.conv_profiling.source import (
    CONVOLUTION,
    WORKSPACE,
    operator_bytes,
    value,
)
from report.studies.conv_profiling.subject import BASE
from report.studies.conv_profiling.tables import measured_work
from report.studies.conv_profiling.values import known
from report.text.format import quantity_text
from report.theory.memory import layer_memory
from report.theory.reconciliation import Reconciliation

#: How many times theory is «far more».
FAR_MORE: Final = 1.5


def all_claims(
    inputs: Inputs,
    runs: Sequence[Run],
    values: dict[str, Value],
    tiles: Mapping[str, Mapping[str, Reconciliation]],
) -> tuple[Claim, ...]:
    """Every claim of the source that numbers can decide; ``tiles`` are GPUs' counts, by key."""
    return (
        *_of_source(inputs, values),
        *map(_saved_work, runs),
        *map(_small_batches, runs),
        *(_architecture(run, tiles.get(run.key, {})) for run in runs),
        *([] if runs else [_unmeasured()]),
    )


def _of_source(inputs: Inputs, values: dict[str, Value]) -> Iterator[Claim]:
    reported = inputs.reported
    batch, printed = value(reported, "profiled_batch"), value(reported, "printed_batch")
    image = layer_memory(BASE.layer(1))
    outputs = known("output of the batch", layer_memory(BASE.layer(batch)).output, "B")

    def bytes_of(operator: str, column: str) -> Quantity:
        size = operator_bytes(reported, operator, column)
        return known(column.replace("_", " "), size, "B", inputs.reported_file)

    kept = bytes_of(CONVOLUTION, "size_increase")
    work = known("printed result", value(reported, "flops"), "FLOP", inputs.reported_file)
    yield _claim(
        "batch-in-product",
        "The product for the number of operations contains the batch size (source).",
        Statement(work / known("work of an image", BASE.operations(1), "FLOP"), exactly(printed)),
        f"its result is {quantity_text(value(reported, 'flops'), 'FLOP', 'exact')}, and that of "
        f"one image is {values['flops'].plain}: the factor {printed} is the {BASE.outputs} output "
        f"channels, and a batch of {printed} would need {values['batch_work'].plain}",
        "flops",
        "batch_work",
    )
    yield _claim(
        "table-of-one-image",
        "The operator table is that of a batch of one image (source).",
        Statement(kept / known("output of an image", image.output, "B"), exactly(1)),
        f"its size increase is {values['source_kept'].plain}, the output of "
        f"{values['table_batch'].plain} images",
        "source_kept",
        "table_batch",
    )
    allocated = bytes_of(CONVOLUTION, "allocation_size")
    told = reported_estimate(inputs)
    without = allocated - bytes_of(WORKSPACE, "self_allocation_size")
    by_image = known("batch · memory of an image", batch * image.parameters_and_output, "B")
    yield _claim(
        "parameters-per-image",
        "Memory for a batch is the memory for one image, parameters included, times the batch "
        "size (source).",
        Statement(without / by_image, exactly(1)),
        f"the parameters are there once, so that {values['extra_parameters'].plain} of the "
        f"estimate are counted too often; counted once it is {values['estimate_once'].plain}, "
        f"which leads to what was allocated with a {_left(told)}",
        "extra_parameters",
        "estimate_once",
    )
    freed = reported_self_size(inputs)
    yield _claim(
        "temporary-storage",
        "Measured memory is larger because of temporary storage inside the call (source).",
        Statement(residual([freed], "B", inputs.reported_file), exactly(0)),
        "what is given beyond the output is one workspace, of which the convolution takes all "
        f"back but the {_left(freed)}",
        "source_workspace",
        "source_self_size",
        "residual_self",
    )
    yield _claim(
        "recovery",
        "Values are saved so that they can be recovered after a failure of a node (source).",
        Statement(kept / outputs, expect("> 1")),
        f"the call keeps {values['source_kept'].plain}, and its output takes "
        f"{quantity_text(layer_memory(BASE.layer(batch)).output, 'B', 'exact')}",
        "source_kept",
    )


def _claim(
    id_: str, sentence: str, statement: Statement | Several, because: str, *values: str
) -> Claim:
    verdict = statement.judge()
    return Claim(id_, sentence, verdict, because, () if verdict == "not measured" else values)


def _left(told: Reconciliation) -> str:
    if isinstance(told.residual, Missing):
        return "residual that is unknown"
    return f"residual of {quantity_text(told.residual, 'B', 'exact')}"


# ------------------------------------------------------------------------------------ the runs


def _ratios(run: Run) -> dict[int, Quantity]:
    """Measured over estimated work of a forward call by batch size."""
    found = {batch: measured_work(run, batch) for batch in run.batches()}
    return {
        b: known("executed", work, "FLOP", run.file) / known("theory", BASE.operations(b), "FLOP")
        for b, work in found.items()
        if not isinstance(work, Missing)
    }


def _uncounted(run: Run) -> Leaf:
    why = f"nothing was counted on {run.label}"
    return absent(why, "1", why)


def _between(name: str, low: float, high: float) -> Quantity:
    """A number of which the ends alone are known."""
    return Inferred(ONE, name, interval=lambda _: Estimate(low, low, high, 0, 1.0))


def _saved(told: Reconciliation) -> Quantity:
    """The share of work that was saved: less than theory, and at most less than all its terms."""
    assert not isinstance(told.measured, Missing)
    counted = told.measured.amount - sum(t.amount for t in told.terms if t.name == MAKING)
    least = max(told.start.amount - counted, 0) / told.start.amount
    return _between(told.id, least, max(told.end - told.measured.amount, 0) / told.start.amount)


def _saved_work(run: Run) -> Claim:
    """Less is executed than theory says, in a forward call or with its backward pass."""
    if run.on_gpu:
        found = [share for pass_ in PASSES for share in executed_shares(run, pass_)]
        parts = [Statement(share, expect("< 1")) for share in found]
        what = "at least the multiply-adds of theory are executed"
    else:
        counted = [*executed(run).values(), *executed(run, "forward_backward").values()]
        parts = [Statement(_saved(told), expect("> 0")) for told in counted]
        what = "every multiply-add of theory is executed"
    none_saved = sum(part.judge() == "refuted" for part in parts)
    return _claim(
        f"saved-work-{run.key}",
        f"Estimates exceed counts because work is cached or optimised away ({run.label}).",
        any_of(*parts),
        f"at {none_saved} of {len(parts)} batch sizes and passes {what}"
        if parts
        else _uncounted(run).name,
        *(() if run.on_gpu else ("residual_executed",)),
    )


def _small_batches(run: Run) -> Claim:
    """Work by the smallest counted batch, time as what changes instead."""
    found = _ratios(run)
    smallest = min(found, default=0)
    ratio = found.get(smallest, _uncounted(run))
    return _claim(
        f"small-batches-{run.key}",
        f"Small batches execute far more operations than theory says ({run.label}).",
        Statement(ratio, expect(f"> {FAR_MORE}")),
        f"a batch of {smallest} executes {_times(ratio)} the operations of theory{_slower(run)}"
        if found
        else _uncounted(run).name,
        *(() if run.on_gpu else ("residual_executed", "image_gain")),
    )


def _times(ratio: Quantity) -> str:
    found = number(ratio)
    assert not isinstance(found, Missing)
    return "exactly" if found == 1 else f"{quantity_text(found, '1')} times"


def _slower(run: Run) -> str:
    """What a small batch costs in time, where the interval says that it costs any."""
    gain = image_gain(run)
    if Statement(gain, expect("> 1")).judge() != "supported":
        return ""
    return (
        f"; an image in the smallest timed batch takes {found_text(gain)} times as long as in the "
        "largest"
    )


def _architecture(run: Run, shapes: Mapping[str, Reconciliation]) -> Claim:
    """An unexplained count is none that no estimate could explain, so that it decides nothing."""
    if run.on_gpu:
        told, what = [*shapes.values()], "counts of work"
        by = "shapes and the tile that the kernel's name tells"
    else:
        told = [*changed(run).values(), *changed_peaks(run).values()]
        what = "counts of work and peaks of memory"
        by = "shapes, the width of a vector and the code that was chosen"
    why = f"nothing that was counted on {run.label} is led back to terms here"
    explained = sum(r.explained for r in told)
    name = "counts that no estimate explains"
    open_ = _between(name, 0, len(told) - explained) if told else absent(name, "1", why)
    return _claim(
        f"architecture-{run.key}",
        "Estimates differ from measurements by an architecture that no estimate can take into "
        f"account ({run.label}).",
        Statement(open_, expect("> 0")),
        f"{explained} of {len(told)} {what}, over all dimensions, follow to the unit from {by}"
        if told
        else why,
        *(() if run.on_gpu else ("residual_changed", "residual_changed_peak")),
    )


def _unmeasured() -> Claim:
    return Claim(
        "own-measurement",
        "What the source says of executed work and of memory holds on this study's machines.",
        "not measured",
        "no run of this experiment is in the data directory",
    )
