"""The trainings of a run: their course as a figure, their ends as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from figures.canvas import Drawing
from figures.scaling import Curve, Points, Scaling
from report.evidence.runs import known
from report.missing import Missing
from report.paper.findings import Figure
from report.paper.images import DataSet
from report.paper.tables import Cell, Column, Table
from report.quantity.evaluation import number
from report.studies.conv_profiling.measured import Run, Training
from report.theory.shapes import parameter_count
from report.theory.work import forward_macs

#: Colours of the trainings; that of the source, in all figures, lies between them.
_SERIES: Final = (0, 2, 3, 4)


def _floats(run: Run, training: Training, quantity: str) -> tuple[float, ...]:
    found = run.samples(quantity, training.factors)
    return () if isinstance(found, Missing) else tuple(map(float, found))


def last(run: Run, training: Training, quantity: str) -> float | Missing:
    """The last epoch's value of a quantity, or why there is none."""
    found = run.samples(quantity, training.factors)
    return found if isinstance(found, Missing) else float(found[-1])


def course(run: Run) -> Figure | None:
    """Loss over the steps and accuracy over the epochs; None where nothing was trained."""
    trained = [training for training in run.trainings if run.trained(training)]
    if not trained:
        return None
    epochs = tuple(range(1, 1 + max(len(_floats(run, t, "test_loss")) for t in trained)))
    return Figure(
        "fig-training",
        f"Training on {run.label}: loss over the training steps, of each step on its own images "
        "(dotted) and of all test images after each epoch (left), and share of images classified "
        "rightly after each epoch (right).",
        " ".join(_told(run, training) for training in trained),
        Drawing(
            (
                Scaling(
                    "Training step",
                    "Loss",
                    tuple(_test_loss(run, t, i) for i, t in enumerate(trained)),
                    tuple(_step_loss(run, t, i) for i, t in enumerate(trained)),
                    x_scale="linear",
                ),
                Scaling(
                    "Epoch",
                    "Classified rightly (%)",
                    tuple(p for i, t in enumerate(trained) for p in _accuracies(run, t, i)),
                    x_ticks=epochs if len(epochs) <= 12 else epochs[1::2],
                    x_scale="linear",
                    y_scale="linear",
                ),
            ),
            wide=True,
            height=2.6,
        ),
        (run.file,),
    )


def _series(index: int) -> int:
    return _SERIES[index % len(_SERIES)]


def _step_loss(run: Run, training: Training, index: int) -> Curve:
    losses = _floats(run, training, "step_loss")
    steps = tuple(map(float, range(1, len(losses) + 1)))
    return Curve(f"Step, {training.name}", steps, losses, "fit", _series(index))


def _test_loss(run: Run, training: Training, index: int) -> Points:
    losses = _floats(run, training, "test_loss")
    each = len(_floats(run, training, "step_loss")) / len(losses)
    steps = tuple(each * (epoch + 1) for epoch in range(len(losses)))
    return Points(f"Test, {training.name}", steps, losses, series=_series(index), joined=True)


def _accuracies(run: Run, training: Training, index: int) -> Iterator[Points]:
    for quantity, word in (("train_accuracy", "Training"), ("test_accuracy", "Test")):
        shares = tuple(100 * share for share in _floats(run, training, quantity))
        epochs = tuple(map(float, range(1, len(shares) + 1)))
        if shares:
            yield Points(
                f"{word}, {training.name}",
                epochs,
                shares,
                series=_series(index),
                hollow=word == "Training",
                joined=True,
            )


def _told(run: Run, training: Training) -> str:
    losses = _floats(run, training, "test_loss")
    shares = _floats(run, training, "test_accuracy")
    return (
        f"{training.name}: test loss from {losses[0]:.3g} to {losses[-1]:.3g} over {len(losses)} "
        f"epochs, test accuracy from {shares[0]:.1%} to {shares[-1]:.1%}."
    )


def table(run: Run, images: DataSet | None) -> Table | None:
    """The trainings of a run, a row each; None where there is none."""
    if not run.trainings:
        return None
    notes = (f"{images.source}; {images.split}.",) if images else ()
    return Table(
        "tbl-training",
        f"The networks that were trained on {run.label}: parameters, multiply-adds of one image, "
        "and where training ended.",
        (
            Column("Channels"),
            Column("Parameters", "1"),
            Column("Work of an image", "MAC"),
            Column("Epochs", "1"),
            Column("Training loss", "1"),
            Column("Test loss", "1"),
            Column("Test accuracy", "1", "%"),
            Column("Epoch", "s"),
        ),
        tuple(_row(run, training) for training in run.trainings),
        notes=notes,
        sources=(run.file,),
        wide=True,
    )


def _row(run: Run, training: Training) -> tuple[Cell, ...]:
    layers = run.layers(training.factors)
    epochs = run.samples("test_loss", training.factors)
    if isinstance(layers, Missing) or isinstance(epochs, Missing):
        why = layers if isinstance(layers, Missing) else known_missing(epochs)
        return (training.channels.replace("-", " and "), *(why,) * 7)
    return (
        training.channels.replace("-", " and "),
        sum(map(parameter_count, layers)),
        forward_macs(layers),
        len(known(epochs)),
        *(last(run, training, name) for name in ("train_loss", "test_loss", "test_accuracy")),
        number(run.series("epoch_time", training.factors)),
    )


def known_missing(found: object) -> Missing:
    """``found``, which is missing."""
    assert isinstance(found, Missing)
    return found
