"""The numbers of conv_profiling's prose that come from the run it speaks of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from report.evidence.residuals import residual
from report.instruments.operators import Sums
from report.missing import Missing
from report.paper.images import DataSet
from report.paper.values import Value
from report.quantity.expression import Quantity, absent
from report.quantity.operations import at_least, at_most
from report.records.layers import Convolution
from report.studies.conv_profiling import network
from report.studies.conv_profiling.measured import Run, Training, image_gain, timed_batches
from report.studies.conv_profiling.profiled import Traced
from report.studies.conv_profiling.reconciled import changed, changed_peaks, executed, peaks
from report.studies.conv_profiling.subject import BASE
from report.studies.conv_profiling.tables import NO_RECORD
from report.studies.conv_profiling.values import CASES, declared, known
from report.text.format import Number
from report.theory.memory import layer_memory
from report.theory.reconciliation import Reconciliation
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
    found = {
        **_counted(run),
        **_times(run),
        **_memory(run),
        **_traced(layer),
        **_trained(learner, images),
        **_shares(whole, learner),
    }
    return (*network.values(learner), *declared(found))


def _counted(run: Run | None) -> dict[str, Quantity]:
    file = run.file if run else ""
    forward = executed(run) if run else {}
    backward = executed(run, "forward_backward") if run else {}
    dimensions = changed(run) if run else {}
    none = NO_RECORD if run is None else Missing(f"nothing was counted on {run.label}")
    met = [r.end == r.start.amount for r in dimensions.values() if r.explained]

    def of_changed(formula: str, number: int) -> Quantity:
        return known(formula, number if dimensions else none, "1", file)

    return {
        "residual_executed": residual([*forward.values(), *backward.values()], "MAC", file),
        "residual_changed": residual(dimensions.values(), "MAC", file),
        "counted_smallest": known(CASES, min(forward, default=none), "1", file),
        "counted_largest": known(CASES, max(forward, default=none), "1", file),
        "changed_cases": of_changed(CASES, len(dimensions)),
        "changed_kinds": known(CASES, len(run.dimensions) if run else none, "1", file),
        "changed_explained": of_changed("count of residuals of zero", len(met)),
        "changed_met": of_changed("count of terms of zero", sum(met)),
        "ratio_lowest": _ratio(at_most, dimensions.values(), none, file),
        "ratio_highest": _ratio(at_least, dimensions.values(), none, file),
    }


def _ratio(
    choose: Callable[..., Quantity],
    dimensions: Iterable[Reconciliation],
    none: Missing,
    file: str,
) -> Quantity:
    """The lowest or highest ratio of theory to executed multiply-adds."""
    ratios = [
        known("theory", r.start.amount, "MAC") / known("executed", r.measured.amount, "MAC", file)
        for r in dimensions
        if not isinstance(r.measured, Missing)
    ]
    return choose(*ratios) if ratios else absent("theory / executed", "1", none.reason)


def _times(run: Run | None) -> dict[str, Quantity]:
    """Time of an image in the smallest and in the largest timed batch, and their ratio."""
    file, batches = (run.file, timed_batches(run)) if run else ("", ())
    why = NO_RECORD if run is None else Missing(f"no forward call was timed on {run.label}")
    ends = {"first": batches[0], "last": batches[-1]} if batches else {"first": 0, "last": 0}
    nothing = absent("time of an image", "s", why.reason)
    return {
        **{f"{at}_batch": known(CASES, batch or why, "1", file) for at, batch in ends.items()},
        **{
            f"image_{at}": run.image_time(batch) if run and batch else nothing
            for at, batch in ends.items()
        },
        "image_gain": image_gain(run) if run else absent("gain", "1", why.reason),
    }


def _memory(run: Run | None) -> dict[str, Quantity]:
    file = run.file if run else ""
    sizes = {b: run.peak(b) for b in run.batches()} if run else {}
    known_sizes = {b: size for b, size in sizes.items() if isinstance(size, int)}
    largest = max(known_sizes, default=0)
    output = known("output", layer_memory(BASE.layer(largest or 1)).output, "B")
    return {
        "residual_peak": residual((peaks(run) if run else {}).values(), "B", file),
        "residual_changed_peak": residual((changed_peaks(run) if run else {}).values(), "B", file),
        "held_batches": known("count of held = output", _same_as_output(run), "1", file),
        "peak_largest": known(CASES, largest or NO_RECORD, "1", file),
        "peak_over_output": known("peak", known_sizes.get(largest, NO_RECORD), "B", file) / output,
    }


def _traced(traced: Traced | None) -> dict[str, Quantity]:
    file = traced.run.file if traced else ""
    row = traced.row("aten::conv2d") if traced else NO_TRACE
    total = row if isinstance(row, Missing) else row.total

    def of(formula: str, number: Number, unit: str = "B") -> Quantity:
        return known(formula, number if isinstance(total, Sums) else total, unit, file)

    sums = total if isinstance(total, Sums) else Sums()
    return {
        "trace_batch": known(CASES, traced.batch if traced else NO_TRACE, "1", file),
        "own_kept": of("sum of its memory events", sums.size),
        "own_allocated": of("sum of allocations", sums.allocated),
        "own_allocations": of("count", sums.allocations, "1"),
        "own_workspace": of("allocation size − size increase", sums.allocated - sums.size),
        "traced_time": known(
            "first to last operator", traced.length / 1e9 if traced else NO_TRACE, "s", file
        ),
    }


def _same_as_output(run: Run | None) -> int | Missing:
    if run is None:
        return NO_RECORD
    held = {b: run.held(b) for b in run.batches()}
    return sum(size == layer_memory(BASE.layer(b)).output for b, size in held.items())


def _trained(run: Run | None, images: DataSet | None) -> dict[str, Quantity]:
    trainings = [t for t in run.trainings if run.trained(t)] if run else []
    base = next((t for t in trainings if t.channels == BASE.channels), None)
    other = next((t for t in trainings if t.channels != BASE.channels), None)
    file = run.file if run else ""

    def of_images(number: int | None) -> Quantity:
        return known("images.json", NO_TRAINING if number is None else number, "1", file)

    def recorded(training: Training | None, quantity: str, place: int) -> Quantity:
        found = _samples(run, training, quantity)
        number = found if isinstance(found, Missing) else float(found[place])
        return known("the record's own", number, "1", file)

    def count(quantity: str) -> Quantity:
        found = _samples(run, base, quantity)
        return known("count", found if isinstance(found, Missing) else len(found), "1", file)

    ratio: Quantity = absent("ratio of epochs", "1", NO_TRAINING.reason)
    if run and base and other:
        ratio = run.series("epoch_time", other.factors) / run.series("epoch_time", base.factors)
    return {
        "train_images": of_images(images.train if images else None),
        "test_images": of_images(images.test if images else None),
        "class_count": of_images(images.classes if images else None),
        "epochs": count("test_loss"),
        "steps": count("step_loss"),
        "first_test_loss": recorded(base, "test_loss", 0),
        "test_loss": recorded(base, "test_loss", -1),
        "test_accuracy": recorded(base, "test_accuracy", -1),
        "other_accuracy": recorded(other, "test_accuracy", -1),
        "epoch_ratio": ratio,
    }


def _samples(
    run: Run | None, training: Training | None, quantity: str
) -> tuple[Number, ...] | Missing:
    if run is None or training is None:
        return NO_TRAINING
    return run.samples(quantity, training.factors)


def _shares(whole: Traced | None, learner: Run | None) -> dict[str, Quantity]:
    """The convolutions' share of the network's multiply-adds, and of the time in its trace."""
    layers = learner.network if learner else ()
    file = learner.file if learner else ""
    ours = [layer for layer in layers if isinstance(layer, Convolution)]
    rows = whole.rows if whole else ()
    spent = sum(row.self_time for row in rows if "conv" in row.name.lower())
    length, trace = (whole.length, whole.run.file) if whole else (NO_TRACE, "")
    return {
        "conv_work": known("multiply-adds of both", forward_macs(ours), "MAC", file)
        / known("of all layers", forward_macs(layers) if layers else NO_TRAINING, "MAC", file),
        "conv_time": known("self time of operators", spent, "s", trace)
        / known("length of the call", length, "s", trace),
    }
