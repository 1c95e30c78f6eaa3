"""What reduced precision does to the accuracy and the loss of one trained network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from report.missing import Missing
from report.quantity.expression import Inferred, Quantity, absent, exact
from report.quantity.units import ONE
from report.records.record import Factor, Sample
from report.statistics.estimates import Estimate
from report.statistics.paired_differences import mean_difference, share_difference
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import Precision
from report.studies.inference_memory.sweeps import scored_network

#: The mean difference between paired scores with its interval at a level.
_Difference: TypeAlias = Callable[[Sequence[Sample], Sequence[Sample], float], Estimate]


def datasets(run: Run) -> tuple[str, ...]:
    """The sets of images on which a trained network was scored."""
    return tuple(map(str, run.levels("dataset", subject="accuracy")))


def score(
    run: Run, dataset: str, precision: Precision, quantity: str
) -> tuple[Sample, ...] | Missing:
    """One value a test image, in the order of the images."""
    factors: dict[str, Factor] = {"network": scored_network(run), "dataset": dataset}
    return run.samples(quantity, {"subject": "accuracy", **factors, "precision": precision})


def mean_score(run: Run, dataset: str, precision: Precision, quantity: str) -> Quantity:
    """The mean over the test images: accuracy or loss."""
    found, name = score(run, dataset, precision, quantity), f"mean {quantity.replace('_', ' ')}"
    if isinstance(found, Missing):
        return absent(name, "1", found.reason)
    return exact(name, "1", sum(found) / len(found), run.file)


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
    if isinstance(new, Missing):
        return absent(name, "1", new.reason)
    if isinstance(old, Missing):
        return absent(name, "1", old.reason)

    def interval(confidence: float) -> Estimate:
        return difference(new, old, confidence)

    device = run.stored.record.environment.device
    return Inferred(ONE, name, run.file, device, interval=interval)
