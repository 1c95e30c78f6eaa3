"""Precision, layout and image size: what each does to time, with absolute base times."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from report.missing import Missing
from report.paper.tables import Cell, Column, Table
from report.quantity.evaluation import estimate, point
from report.studies.training_roofline.measured import (
    Run,
    alone_mark,
    product_mark,
)
from report.studies.training_roofline.subject import LAYOUT_NAMES, NETWORKS, Step

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


def speedup_table(run: Run) -> Table:
    """Speed-up over float32, contiguous, with the absolute time of that base."""
    made: tuple[tuple[Cell, ...], ...] = tuple(
        (
            *(new.network, new.image, new.batch, new.precision, LAYOUT_NAMES[new.layout]),
            *map(estimate, (run.time(base), run.time(new), run.speedup(base, new))),
            estimate(run.efficiency(new)),
        )
        for base, new in pairs(run)
    )
    return Table(
        f"tbl-speedups-{run.key}",
        f"Precision and layout on {run.label}: speed-up over the same step in float32 and "
        "contiguous layout, with the absolute times of both, and efficiency over the matrix "
        "product in the same precision.",
        (
            *(Column("Network"), Column("Image", "1"), Column("Batch", "1"), Column("Precision")),
            *(Column("Layout"), Column("Base", "s", "ms"), Column("Time", "s", "ms")),
            *(Column("Speed-up", "1"), Column("Efficiency", "1", "%")),
        ),
        made,
        notes=(
            *alone_mark(run, (step for pair in pairs(run) for step in pair)),
            *product_mark(run),
        ),
        sources=(run.file,),
        wide=True,
    )


def image_steps(run: Run, network: str) -> tuple[Step, ...]:
    """The plain steps of a network at one batch over the image sizes, at the batch with most."""
    plain = [s for s in run.chosen(network=network) if s == s.plain]
    batches = {step.batch for step in plain}
    most = max(batches, key=lambda b: (sum(s.batch == b for s in plain), -b), default=0)
    return tuple(step for step in plain if step.batch == most)


def image_table(run: Run) -> Table | None:
    """Time and rate over the image size at one batch; None where no network had two sizes."""
    every = [image_steps(run, network) for network in NETWORKS]
    if all(len(steps) < 2 for steps in every):
        return None
    steps = tuple(step for found in every for step in found)
    made: tuple[tuple[Cell, ...], ...] = tuple(
        (
            *(step.network, step.image, step.batch, run.work(step)),
            *map(estimate, (run.time(step), run.images(step))),
            *map(estimate, (run.rate(step), run.efficiency(step))),
        )
        for step in steps
    )
    return Table(
        f"tbl-images-{run.key}",
        f"Training steps over the size of the images on {run.label}: float32, contiguous, eager.",
        (
            *(Column("Network"), Column("Image", "1"), Column("Batch", "1")),
            *(Column("Work", "FLOP", "GFLOP"), Column("Time of a step", "s", "ms")),
            *(Column("Images / s", "1"), Column("Rate", "FLOP/s", "GFLOP/s")),
            Column("Efficiency", "1", "%"),
        ),
        made,
        notes=(*alone_mark(run, steps), *product_mark(run)),
        sources=(run.file,),
        wide=True,
    )


def phases_table(run: Run, steps: tuple[Step, ...]) -> Table:
    """How a step divides into forward pass, backward pass and update."""
    names = ("forward_time", "backward_time", "update_time")
    made: list[tuple[Cell, ...]] = []
    for step in steps:
        whole = estimate(run.time(step))
        parts = [_part(run, step, name) for name in names]
        shares = [
            p if isinstance(p, Missing) or isinstance(whole, Missing) else p / whole.value
            for p in parts
        ]
        made.append((step.network, step.batch, whole, *parts, *shares))
    return Table(
        f"tbl-phases-{run.key}",
        f"The parts of a plain training step on {run.label}: medians of forward pass with loss, "
        "backward pass and update, and their shares of the step.",
        (
            *(Column("Network"), Column("Batch", "1"), Column("Step", "s", "ms")),
            *(Column(n, "s", "ms") for n in ("Forward", "Backward", "Update")),
            *(Column(n, "1", "%") for n in ("Forward", "Backward", "Update")),
        ),
        tuple(made),
        sources=(run.file,),
        wide=True,
    )


def _part(run: Run, step: Step, name: str) -> float | Missing:
    found = run.by_process(name, step.factors)
    if isinstance(found, Missing):
        return found
    return median(median(process.samples) for process in found)


def waits(run: Run) -> tuple[Step, ...]:
    """The steps on images of a folder, whose loader was waited for."""
    return run.chosen(dataset="folder")


def wait_table(run: Run) -> Table | None:
    """How long training waited for its images; None where none came from a folder."""
    steps = waits(run)
    if not steps:
        return None
    made: list[tuple[Cell, ...]] = []
    for step in steps:
        time, wait = estimate(run.time(step)), _part(run, step, "loader_wait_time")
        share: Cell = wait if isinstance(wait, Missing) else ""
        if not isinstance(time, Missing) and not isinstance(wait, Missing):
            share = wait / (time.value + wait)
        made.append((step.network, step.batch, step.workers or 0, time, wait, share))
    return Table(
        f"tbl-waits-{run.key}",
        f"Training on images of a folder on {run.label}: time of a step, and how long it waited "
        "for the loader before it began.",
        (
            *(Column("Network"), Column("Batch", "1"), Column("Workers", "1")),
            *(Column("Step", "s", "ms"), Column("Wait", "s", "ms"), Column("Waiting", "1", "%")),
        ),
        tuple(made),
        sources=(run.file,),
    )


def host_bound(run: Run) -> tuple[Step, ...]:
    """The steps after whose last operation was issued the host hardly waited for the device.

    The device is then done with nearly all of the step and waited for the host instead.
    """
    shares = {step: _host_share(run, step) for step in run.timed(run.steps)}
    return tuple(
        step for step, share in shares.items() if isinstance(share, float) and share < HOST_BOUND
    )


def host_table(run: Run) -> Table | None:
    """How long the host waited for a GPU at the end of each step; None on a processor."""
    steps = run.timed(run.steps) if run.on_gpu else ()
    if not steps:
        return None
    return Table(
        f"tbl-host-{run.key}",
        f"Who waits for whom on {run.label}: the time of a step, and how long the host waited for "
        "the device after it had issued the step. A share near zero means that the device was "
        "never far behind and waited for the host.",
        (
            *(Column("Network"), Column("Image", "1"), Column("Batch", "1"), Column("Setting")),
            *(Column("Step", "s", "ms"), Column("Host waits", "s", "ms")),
            Column("Of the step", "1", "%"),
        ),
        tuple(
            (
                *(step.network, step.image, step.batch, step.setting, estimate(run.time(step))),
                *(_part(run, step, "wait_time"), _host_share(run, step)),
            )
            for step in steps
        ),
        notes=alone_mark(run, steps),
        sources=(run.file,),
        wide=True,
    )


def _host_share(run: Run, step: Step) -> float | Missing:
    time, wait = point(run.time(step)), _part(run, step, "wait_time")
    if isinstance(time, Missing):
        return time
    return wait if isinstance(wait, Missing) else wait / time


_SENSORS: Final = {
    "temperature": ("device_temperature", "°C", 1.0),
    "clock": ("device_clock", "MHz", 1e-6),
    "power": ("device_power", "W", 1.0),
    "throttle_reasons": ("throttle_reasons", "", 1.0),
}


def sensor_table(runs: tuple[Run, ...]) -> Table | None:
    """What each device tells of temperature, clock, power and throttling; None if none does."""
    made = [
        (run.label, sensor.replace("_", " "), *_readings(run, sensor))
        for run in runs
        if any(_told(run, sensor) for sensor in _SENSORS)
        for sensor in _SENSORS
    ]
    if not made:
        return None
    return Table(
        "tbl-sensors",
        "What the devices tell of themselves, read between steps and never within one: lowest and "
        "highest reading over all steps.",
        (Column("Device"), Column("Sensor"), Column("Lowest"), Column("Highest")),
        tuple(made),
        sources=tuple(run.file for run in runs),
    )


def silent(runs: Sequence[Run]) -> tuple[str, ...]:
    """Why devices that were asked tell nothing of themselves, each reason once."""
    found = (
        _untold(run, sensor)
        for run in runs
        if not any(_told(run, other) for other in _SENSORS)
        for sensor in _SENSORS
    )
    return tuple(dict.fromkeys(found))


def _told(run: Run, sensor: str) -> list[float]:
    """All readings of a sensor in a run."""
    quantity = _SENSORS[sensor][0]
    return [
        sample
        for case in run.stored.record.cases
        if case.status == "ok"
        for sample in case.samples(quantity)
    ]


def _readings(run: Run, sensor: str) -> tuple[Cell, Cell]:
    _, unit, factor = _SENSORS[sensor]
    found = _told(run, sensor)
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
