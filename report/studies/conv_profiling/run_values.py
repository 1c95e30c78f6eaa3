"""The numbers of conv_profiling's prose that come from the run it speaks of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from report.instruments.operators import Sums
from report.missing import Missing
from report.paper.images import DataSet
from report.paper.residuals import residual
from report.paper.values import Finding, Value, exact
from report.records.layers import Convolution
from report.studies.conv_profiling import network
from report.studies.conv_profiling.measured import Run, Training, image_gain, scaled, timed_batches
from report.studies.conv_profiling.profiled import Traced
from report.studies.conv_profiling.reconciled import changed, changed_peaks, executed, peaks
from report.studies.conv_profiling.subject import BASE
from report.studies.conv_profiling.tables import NO_RECORD
from report.studies.conv_profiling.training import last
from report.studies.conv_profiling.values import CASES
from report.theory.memory import layer_memory
from report.theory.work import forward_macs

NO_TRACE: Final = Missing("no trace of it is beside a record")
NO_TRAINING: Final = Missing("nothing was trained")


def run_values(
    run: Run | None,
    learner: Run | None,
    traced: tuple[Traced | None, Traced | None],
    images: DataSet | None,
) -> tuple[Value, ...]:
    """What was counted, held, traced and trained; missing where it was not."""
    layer, whole = traced
    return (
        *network.values(learner),
        *_counted(run),
        *_memory(run, layer),
        *_trained(learner, images),
        *_shares(whole, learner),
    )


def _counted(run: Run | None) -> tuple[Value, ...]:
    origin = (run.file,) if run else ()
    forward = executed(run) if run else {}
    backward = executed(run, "forward_backward") if run else {}
    dimensions = changed(run) if run else {}
    every = [*forward.values(), *backward.values()]
    ratios = [
        r.start.amount / r.measured.amount
        for r in dimensions.values()
        if not isinstance(r.measured, Missing)
    ]
    none = NO_RECORD if run is None else Missing(f"nothing was counted on {run.label}")
    return (
        residual("executed", "of the executed multiply-adds", every, "MAC", origin),
        residual("changed", "with changed dimensions", dimensions.values(), "MAC", origin),
        exact(
            "counted_smallest",
            "Smallest counted batch",
            min(forward, default=none),
            "1",
            CASES,
            origin,
        ),
        exact(
            "counted_largest",
            "Largest counted batch",
            max(forward, default=none),
            "1",
            CASES,
            origin,
        ),
        exact(
            "changed_cases",
            "Cases of dimensions counted",
            len(dimensions) or none,
            "1",
            CASES,
            origin,
        ),
        exact(
            "changed_kinds",
            "Dimensions of the layer measured",
            len(run.dimensions) if run else none,
            "1",
            CASES,
            origin,
        ),
        exact(
            "changed_explained",
            "Cases of dimensions explained to the unit",
            sum(r.explained for r in dimensions.values()) if dimensions else none,
            "1",
            "count of residuals of zero",
            origin,
        ),
        exact(
            "changed_met",
            "Cases of dimensions in which theory alone is met",
            sum(r.explained and r.end == r.start.amount for r in dimensions.values())
            if dimensions
            else none,
            "1",
            "count of terms of zero",
            origin,
        ),
        Value(
            "ratio_lowest",
            "Lowest ratio of estimate to measurement",
            min(ratios, default=none),
            "1",
            "theory / executed",
            origin,
        ),
        Value(
            "ratio_highest",
            "Highest ratio of estimate to measurement",
            max(ratios, default=none),
            "1",
            "theory / executed",
            origin,
        ),
        *_times(run, origin),
    )


def _times(run: Run | None, origin: tuple[str, ...]) -> tuple[Value, ...]:
    """Time of an image in the smallest and in the largest timed batch, and their ratio."""
    batches = timed_batches(run) if run else ()
    why = NO_RECORD if run is None else Missing(f"no forward call was timed on {run.label}")
    first, final = (batches[0], batches[-1]) if batches else (0, 0)
    one, many = _each(run, first), _each(run, final)
    return (
        exact("first_batch", "Smallest timed batch", first or why, "1", CASES, origin),
        exact("last_batch", "Largest timed batch", final or why, "1", CASES, origin),
        Value("image_first", "Time of an image, smallest batch", one, "s", _EACH, origin),
        Value("image_last", "Time of an image, largest batch", many, "s", _EACH, origin),
        Value(
            "image_gain",
            "Time of an image, smallest over largest batch",
            image_gain(run) if run else why,
            "1",
            "ratio of medians · batches",
            origin,
        ),
    )


_EACH: Final = "median / batch"


def _each(run: Run | None, batch: int) -> Finding:
    if run is None or not batch:
        return NO_RECORD
    time = run.time(batch)
    return time if isinstance(time, Missing) else scaled(time, 1 / batch)


def _memory(run: Run | None, traced: Traced | None) -> tuple[Value, ...]:
    origin = (run.file,) if run else ()
    traces = (traced.run.file,) if traced else ()
    row = traced.row("aten::conv2d") if traced else NO_TRACE
    total = row if isinstance(row, Missing) else row.total
    largest = (
        max((b for b in run.batches() if isinstance(run.peak(b), int)), default=0) if run else 0
    )
    peak = run.peak(largest) if run and largest else NO_RECORD
    output = layer_memory(BASE.layer(largest or 1)).output
    kept_exactly = _same_as_output(run)
    sums: dict[str, Finding] = {
        name: total if isinstance(total, Missing) else size
        for name, size in _sums(total if isinstance(total, Sums) else Sums()).items()
    }
    return (
        residual("peak", "of the peak", (peaks(run) if run else {}).values(), "B", origin),
        residual(
            "changed_peak",
            "of the peak, changed dimensions",
            (changed_peaks(run) if run else {}).values(),
            "B",
            origin,
        ),
        exact(
            "held_batches",
            "Batches at which the call keeps its output and nothing else",
            kept_exactly,
            "1",
            "count of held = output",
            origin,
        ),
        exact(
            "peak_largest", "Largest batch with a peak", largest or NO_RECORD, "1", CASES, origin
        ),
        Value(
            "peak_over_output",
            "Peak over output, largest batch",
            peak if isinstance(peak, Missing) else peak / output,
            "1",
            "peak / output",
            origin,
        ),
        exact(
            "trace_batch",
            "Batch of the traced call",
            traced.batch if traced else NO_TRACE,
            "1",
            CASES,
            traces,
        ),
        exact(
            "own_kept",
            "Bytes that the traced forward call keeps",
            sums["kept"],
            "B",
            "sum of its memory events",
            traces,
        ),
        exact(
            "own_allocated",
            "Bytes given in the traced forward call",
            sums["given"],
            "B",
            "sum of allocations",
            traces,
        ),
        exact(
            "own_allocations",
            "Allocations in the traced forward call",
            sums["times"],
            "1",
            "count",
            traces,
        ),
        exact(
            "own_workspace",
            "Bytes given and taken back in the traced forward call",
            sums["taken back"],
            "B",
            "allocation size − size increase",
            traces,
        ),
        Value(
            "traced_time",
            "Length of the traced call",
            traced.length / 1e9 if traced else NO_TRACE,
            "s",
            "first to last operator",
            traces,
        ),
    )


def _sums(total: Sums) -> dict[str, int]:
    return {
        "kept": total.size,
        "given": total.allocated,
        "times": total.allocations,
        "taken back": total.allocated - total.size,
    }


def _same_as_output(run: Run | None) -> Finding:
    if run is None:
        return NO_RECORD
    held = {b: run.held(b) for b in run.batches()}
    return sum(size == layer_memory(BASE.layer(b)).output for b, size in held.items())


def _trained(run: Run | None, images: DataSet | None) -> tuple[Value, ...]:
    origin = (run.file,) if run else ()
    trainings = [t for t in run.trainings if run.trained(t)] if run else []
    base = _first(trainings, BASE.channels)
    other = next((t for t in trainings if t.channels != BASE.channels), None)
    return (
        exact(
            "train_images",
            "Training images",
            images.train if images else NO_TRAINING,
            "1",
            "images.json",
            origin,
        ),
        exact(
            "test_images",
            "Test images",
            images.test if images else NO_TRAINING,
            "1",
            "images.json",
            origin,
        ),
        exact(
            "class_count",
            "Classes",
            images.classes if images else NO_TRAINING,
            "1",
            "images.json",
            origin,
        ),
        exact("epochs", "Epochs", _count(run, base, "test_loss"), "1", "count", origin),
        exact("steps", "Training steps", _count(run, base, "step_loss"), "1", "count", origin),
        Value(
            "first_test_loss",
            "Test loss after the first epoch",
            _at(run, base, "test_loss", 0),
            "1",
            "the record's own",
            origin,
        ),
        Value(
            "test_loss",
            "Test loss after the last epoch",
            _at(run, base, "test_loss", -1),
            "1",
            "the record's own",
            origin,
        ),
        Value(
            "test_accuracy",
            "Test accuracy after the last epoch",
            _at(run, base, "test_accuracy", -1),
            "1",
            "the record's own",
            origin,
            "percent",
        ),
        Value(
            "other_accuracy",
            "Test accuracy with other channels",
            _at(run, other, "test_accuracy", -1),
            "1",
            "the record's own",
            origin,
            "percent",
        ),
        Value(
            "epoch_ratio",
            "Epoch with other channels over epoch",
            _epoch_ratio(run, base, other),
            "1",
            "ratio of medians",
            origin,
        ),
    )


def _first(trainings: Sequence[Training], channels: str) -> Training | None:
    return next((training for training in trainings if training.channels == channels), None)


def _count(run: Run | None, training: Training | None, quantity: str) -> Finding:
    if run is None or training is None:
        return NO_TRAINING
    found = run.samples(quantity, training.factors)
    return found if isinstance(found, Missing) else len(found)


def _at(run: Run | None, training: Training | None, quantity: str, place: int) -> Finding:
    if run is None or training is None:
        return NO_TRAINING
    if place == -1:
        return last(run, training, quantity)
    found = run.samples(quantity, training.factors)
    return found if isinstance(found, Missing) else float(found[place])


def _epoch_ratio(run: Run | None, base: Training | None, other: Training | None) -> Finding:
    if run is None or base is None or other is None:
        return NO_TRAINING
    return run.ratio("epoch_time", other.factors, base.factors)


def _shares(whole: Traced | None, learner: Run | None) -> tuple[Value, ...]:
    """The convolutions' share of the network's multiply-adds, and of the time in its trace."""
    layers = learner.network if learner else ()
    ours = [layer for layer in layers if isinstance(layer, Convolution)]
    rows = whole.rows if whole else ()
    spent = sum(row.self_time for row in rows if "conv" in row.name.lower())
    return (
        Value(
            "conv_work",
            "Share of the convolutions in the network's multiply-adds",
            forward_macs(ours) / forward_macs(layers) if layers else NO_TRAINING,
            "1",
            "multiply-adds of both / of all layers",
            (learner.file,) if learner else (),
            "percent",
        ),
        Value(
            "conv_time",
            "Share of the convolutions in the traced call",
            spent / whole.length if whole else NO_TRACE,
            "1",
            "self time of operators / length of the call",
            (whole.run.file,) if whole else (),
            "percent",
        ),
    )
