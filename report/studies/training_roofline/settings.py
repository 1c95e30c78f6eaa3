"""Precision, layout and image size: what each does to time, with absolute base times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from report.missing import Missing
from report.paper.tables import Cell
from report.quantity.evaluation import point
from report.quantity.expression import Quantity
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.subject import NETWORKS, Step

#: A host that waits less than this share of a step for its device is what the device waited for.
HOST_BOUND: Final = 0.01


def pairs(run: Run) -> tuple[tuple[Step, Step], ...]:
    """Steps in another precision or layout, each beside the plain step that was timed too."""
    return tuple(
        (step.plain, step)
        for network in NETWORKS
        for step in run.chosen(network=network, execution="eager", optimizer="default")
        if step != step.plain and step.plain in run.steps and step.dataset == "synthetic"
    )


def image_steps(run: Run, network: str) -> tuple[Step, ...]:
    """The plain steps of a network at one batch over the image sizes, at the batch with most."""
    plain = [s for s in run.chosen(network=network) if s == s.plain]
    batches = {step.batch for step in plain}
    most = max(batches, key=lambda b: (sum(s.batch == b for s in plain), -b), default=0)
    return tuple(step for step in plain if step.batch == most)


def part(run: Run, step: Step, name: str) -> Quantity:
    """The time (s) of a part of a step, such as its forward pass, or of a wait."""
    return run.series(name, step.factors)


def host_bound(run: Run) -> tuple[Step, ...]:
    """The steps after whose last operation was issued the host hardly waited for the device.

    The device is then done with nearly all of the step and waited for the host instead.
    """
    shares = {step: point(host_share(run, step)) for step in run.timed(run.steps)}
    return tuple(
        step for step, share in shares.items() if isinstance(share, float) and share < HOST_BOUND
    )


def host_share(run: Run, step: Step) -> Quantity:
    """The share of a step that the host waited for its device after it had issued the step."""
    return part(run, step, "wait_time") / run.time(step)


SENSORS: Final = {
    "temperature": ("device_temperature", "°C", 1.0),
    "clock": ("device_clock", "MHz", 1e-6),
    "power": ("device_power", "W", 1.0),
    "throttle_reasons": ("throttle_reasons", "", 1.0),
}


def silent(runs: Sequence[Run]) -> tuple[str, ...]:
    """Why devices that were asked tell nothing of themselves, each reason once."""
    found = (
        _untold(run, sensor)
        for run in runs
        if not any(sensed(run, other) for other in SENSORS)
        for sensor in SENSORS
    )
    return tuple(dict.fromkeys(found))


def sensed(run: Run, sensor: str) -> list[float]:
    """All readings of a sensor in a run."""
    quantity = SENSORS[sensor][0]
    return [
        sample
        for case in run.stored.record.cases
        if case.status == "ok"
        for sample in case.samples(quantity)
    ]


def readings(run: Run, sensor: str) -> tuple[Cell, Cell]:
    _, unit, factor = SENSORS[sensor]
    found = sensed(run, sensor)
    if not found:
        why = Missing(_untold(run, sensor))
        return why, why
    low, high = (f"{factor * end:,.4g} {unit}".strip() for end in (min(found), max(found)))
    return low, high


def _untold(run: Run, sensor: str) -> str:
    for case in run.stored.record.cases:
        if (case.factors.get("subject"), case.factors.get("sensor")) == ("sensor", sensor):
            return (case.reason or "no reading was recorded").rstrip(".")
    return f"the run on {run.label} did not ask for it"
