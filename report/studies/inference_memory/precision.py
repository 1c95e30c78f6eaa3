"""Reduced precision: time, memory, and the accuracy and loss of one trained network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from figures.canvas import Drawing
from figures.scaling import Curve, Scaling
from report.missing import Missing
from report.paper.declared import cells
from report.paper.findings import Figure
from report.paper.tables import Cell, Column, Table
from report.quantity.expression import Inferred, Quantity, absent, exact
from report.quantity.units import ONE
from report.records.record import Factor, Sample
from report.statistics.estimates import Estimate
from report.statistics.paired_differences import mean_difference, share_difference
from report.studies.inference_memory.batches import numbers, points, ticks
from report.studies.inference_memory.layouts import amp_precision
from report.studies.inference_memory.measured import Run, centre
from report.studies.inference_memory.subject import REDUCED, TRAINED, Call, Precision

_PERCENT = 100
#: The mean difference between paired scores with its interval at a level.
_Difference: TypeAlias = Callable[[Sequence[Sample], Sequence[Sample], float], Estimate]


def scored_network(run: Run) -> str:
    """The network that was trained and scored; the plan's where there is none."""
    found = (
        str(case.factors["network"])
        for case in run.stored.record.cases
        if case.factors.get("subject") == "accuracy"
    )
    return next(found, TRAINED)


def pairs(run: Run) -> tuple[tuple[Call, Call], ...]:
    """Each contiguous eager call in reduced precision with its float32 one."""
    network = scored_network(run)
    found = [
        (call, Call(call.network, call.image, call.batch))
        for precision in REDUCED
        for call in run.chosen(
            network=network, precision=precision, layout="contiguous", execution="eager"
        )
    ]
    return tuple(found)


def natural_pairs(run: Run) -> tuple[tuple[Call, Call], ...]:
    """Those in the precision that the device is made for, as AMP would use it."""
    return tuple(pair for pair in pairs(run) if pair[0].precision == amp_precision(run))


def precision_table(run: Run) -> Table:
    """Time and peak in reduced precision against float32, over the batch size."""
    return Table(
        "tbl-precision",
        f"{scored_network(run)} under autocast on {run.label}, contiguous, eager: time against "
        "float32 (above 1 is slower), peak memory and its prediction from shapes.",
        (
            Column("Precision"),
            Column("Batch", "1"),
            Column("Time in float32", "s", "ms"),
            Column("Time", "s", "ms"),
            Column("Time ratio", "1"),
            Column("Peak in float32", "B", "MB"),
            Column("Peak", "B", "MB"),
            Column("Predicted", "B", "MB"),
            Column("Saved", "1", "%"),
        ),
        tuple(_row(run, call, base) for call, base in _told(run)),
        sources=(run.file,),
        wide=True,
    )


def _told(run: Run) -> tuple[tuple[Call, Call], ...]:
    """The pairs without a precision's second and further calls that were not measured."""
    missing = [call for call, _ in pairs(run) if isinstance(run.case(call.factors), Missing)]
    first = {call.precision: call for call in reversed(missing)}
    return tuple(
        (call, base)
        for call, base in pairs(run)
        if call not in missing or call == first[call.precision]
    )


def _row(run: Run, call: Call, base: Call) -> tuple[Cell, ...]:
    predicted = run.predicted(call)
    return cells(
        call.precision,
        call.batch,
        run.time(base),
        run.time(call),
        run.time_ratio(call, base),
        run.peak(base),
        run.peak(call),
        predicted if isinstance(predicted, Missing) else predicted.total,
        run.saved(call, base),
    )


def precision_figure(run: Run) -> Figure:
    """Ratio of times and share of memory saved over the batch size."""
    panels = (
        _panel(run, run.time_ratio, 1, "Time against float32", equal=1),
        _panel(run, run.saved, _PERCENT, "Peak memory saved (%)", equal=0),
    )
    return Figure(
        "fig-precision",
        f"{scored_network(run)} under autocast against float32 on {run.label}, over the batch "
        "size: ratio of times with 95 % intervals (left; above the line is slower) and peak "
        "memory saved (right).",
        _alt(run),
        Drawing(panels, wide=True, height=2.4),
        (run.file,),
    )


def _panel(
    run: Run,
    quantity: Callable[[Call, Call], Quantity],
    factor: float,
    label: str,
    *,
    equal: float,
) -> Scaling:
    drawn, batches = [], set()
    for index, precision in enumerate(REDUCED):
        chosen = [(c, b) for c, b in pairs(run) if c.precision == precision]
        found = numbers({c.batch: quantity(c, b) for c, b in chosen})
        batches |= set(found)
        if found:
            drawn.append(points(precision, found, factor, index, joined=len(found) == len(chosen)))
    ends = (min(batches, default=1), max(batches, default=1))
    curves = (Curve("as float32", ends, (equal, equal)),) if drawn else ()
    return Scaling(
        "Batch size (images)",
        label,
        tuple(drawn),
        curves,
        x_ticks=ticks(sorted(batches)),
        y_scale="log" if equal else "linear",
    )


def _alt(run: Run) -> str:
    told = []
    for call, base in pairs(run):
        ratio, saved = run.time_ratio(call, base), run.saved(call, base)
        if not ratio.missing and not saved.missing:
            told.append(
                f"{call.precision} at batch {call.batch}: {centre(ratio):.3g} times as long, "
                f"{100 * centre(saved):.3g} per cent less memory."
            )
    return "Two panels over batch size. " + " ".join(told)


# ------------------------------------------------------------------------------------ accuracy


def datasets(run: Run) -> tuple[str, ...]:
    """The sets of images on which a trained network was scored."""
    return tuple(dict.fromkeys(map(str, run.levels("dataset", subject="accuracy"))))


def score(
    run: Run, dataset: str, precision: Precision, quantity: str
) -> tuple[Sample, ...] | Missing:
    """One value a test image, in the order of the images."""
    factors: dict[str, Factor] = {
        "subject": "accuracy",
        "network": scored_network(run),
        "dataset": dataset,
        "precision": precision,
    }
    return run.samples(quantity, factors)


def accuracy_change(run: Run, dataset: str, precision: Precision) -> Quantity:
    """Accuracy in reduced precision minus that in float32, of the same images."""

    def difference(new: Sequence[Sample], old: Sequence[Sample], confidence: float) -> Estimate:
        return share_difference(list(map(int, new)), list(map(int, old)), confidence)

    return _change(run, dataset, precision, "image_correct", difference)


def loss_change(run: Run, dataset: str, precision: Precision) -> Quantity:
    """Mean loss in reduced precision minus that in float32, of the same images."""
    return _change(run, dataset, precision, "image_loss", mean_difference)


def _change(
    run: Run, dataset: str, precision: Precision, quantity: str, difference: _Difference
) -> Quantity:
    """The mean paired difference; the images are the units."""
    new, old = (score(run, dataset, p, quantity) for p in (precision, "float32"))
    name = f"change of {quantity.replace('_', ' ')} ({dataset}, {precision})"
    for scores in (new, old):
        if isinstance(scores, Missing):
            return absent(name, "1", scores.reason)
    return Inferred(
        ONE,
        name,
        run.file,
        run.stored.record.environment.device,
        interval=lambda confidence: difference(new, old, confidence),  # type: ignore[arg-type]
    )


def mean_score(run: Run, dataset: str, precision: Precision, quantity: str) -> Quantity:
    """The mean over the test images: accuracy or loss."""
    found, name = score(run, dataset, precision, quantity), f"mean {quantity.replace('_', ' ')}"
    if isinstance(found, Missing):
        return absent(name, "1", found.reason)
    return exact(name, "1", sum(found) / len(found), run.file)


def accuracy_table(run: Run) -> Table:
    """Accuracy and loss of one trained network in each precision, paired over the images."""
    rows = [
        _accuracy_row(run, dataset, precision)
        for dataset in datasets(run)
        for precision in ("float32", *REDUCED)
    ]
    return Table(
        "tbl-accuracy",
        f"The same trained {scored_network(run)} on the same test images in each precision on "
        f"{run.label}; changes are against float32, paired over the images, with 95 % intervals.",
        (
            Column("Images"),
            Column("Precision"),
            Column("Number", "1"),
            Column("Accuracy", "1", "%"),
            Column("Change of accuracy", "1", "%"),
            Column("Loss", "1"),
            Column("Change of loss", "1"),
        ),
        tuple(rows),
        sources=(run.file,),
        wide=True,
    )


def _accuracy_row(run: Run, dataset: str, precision: Precision) -> tuple[Cell, ...]:
    found = score(run, dataset, precision, "image_correct")
    base = precision == "float32"
    return cells(
        dataset,
        precision,
        found if isinstance(found, Missing) else len(found),
        mean_score(run, dataset, precision, "image_correct"),
        _BASE if base else accuracy_change(run, dataset, precision),
        mean_score(run, dataset, precision, "image_loss"),
        _BASE if base else loss_change(run, dataset, precision),
    )


_BASE = "base"
