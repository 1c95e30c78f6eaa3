"""The trainings of a run: their course as a figure, their ends as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from figures.canvas import Drawing
from figures.scaling import Curve, Points, Scaling
from report.missing import Missing
from report.paper.declared import Content, Field, table
from report.paper.findings import Figure
from report.paper.tables import Table
from report.records.layers import Layer
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
        "",
        "",
        Drawing(
            (
                Scaling(
                    "Training step",
                    "Loss",
                    tuple(_test_loss(run, t, i) for i, t in enumerate(trained)),
                    (_step_loss(run, trained[0], 0),),
                    x_scale="linear",
                ),
                Scaling(
                    "Epoch",
                    "Accuracy (%)",
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


def training_table(run: Run) -> Table:
    """The trainings of a run, a row each: the network, and where training ended."""

    def end(name: str) -> Callable[[Training], Content]:
        return lambda training: last(run, training, name)

    def of_layers(get: Callable[[Sequence[Layer]], int]) -> Callable[[Training], Content]:
        def cell(training: Training) -> Content:
            layers = run.layers(training.factors)
            return layers if isinstance(layers, Missing) else get(layers)

        return cell

    def epochs(training: Training) -> Content:
        found = run.samples("test_loss", training.factors)
        return found if isinstance(found, Missing) else len(found)

    return table(
        "tbl-training",
        run.trainings,
        [
            Field("Channels", "", lambda training: training.channels.replace("-", " and ")),
            Field("Parameters", "1", of_layers(lambda x: sum(map(parameter_count, x)))),
            Field("Work of an image", "MAC", of_layers(forward_macs)),
            Field("Epochs", "1", epochs),
            Field("Training loss", "1", end("train_loss")),
            Field("Test loss", "1", end("test_loss")),
            Field("Test accuracy", "1", end("test_accuracy"), "%"),
            Field("Epoch", "s", lambda training: run.series("epoch_time", training.factors)),
        ],
        sources=(run.file,),
        wide=True,
    )
